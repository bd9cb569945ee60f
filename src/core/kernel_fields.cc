#include "core/kernel_fields.h"

#include "absl/strings/str_cat.h"
#include "core/json_object.h"

namespace lathe {
namespace {

// Fields with one meaning in several families.
constexpr FieldUse kTileM = {"tile_m", "rows of D of a task"}, kTileN = {"tile_n", "columns of D of a task"};
constexpr FieldUse kGroupM = {"tile_m", "rows of D of a workgroup"},
                   kGroupN = {"tile_n", "columns of D of a workgroup"};
constexpr FieldUse kDepth = {"tile_k", "depth of a K block of packed panels"},
                   kSharedDepth = {"tile_k", "depth of a K block in shared memory"};
constexpr FieldUse kRows = {"register_m", "rows of D in registers"},
                   kColumns = {"register_n", "columns of D in registers"};
constexpr FieldUse kVectorRows = {"register_m", "rows of D in registers, whole vectors"},
                   kVectorColumns = {"register_n", "columns of D in registers, whole vectors"};
constexpr FieldUse kWarpRows = {"register_m", "rows of D of a warp"},
                   kWarpColumns = {"register_n", "columns of D of a warp"};
constexpr FieldUse kUnroll = {"unroll_k", "steps along K per iteration"};
constexpr FieldUse kLanes = {"lanes", "f32 lanes of a vector"};
constexpr FieldUse kThreads = {"threads", "threads of a workgroup"};
constexpr FieldUse kStages = {"stages", "buffers of shared memory in flight"};
constexpr FieldUse kRaster = {"raster", "tiles along M before the next one along N; 0: launch order"};
constexpr FieldUse kSplit = {"split", "who merges splits of K, a Split; 0: K is not split"};
constexpr FieldUse kPace = {"pace", "least cycles of an iteration of the innermost loop; 0: no limit"};
constexpr FieldUse kChains = {"chains", "partial sums of an element of D"};
constexpr FieldUse kNarrow = {"narrow_passes", "fewest vectors of the last pass; 0: all passes are equal"};
constexpr FieldUse kStore = {"store_directly", "1: sums go from registers through the epilogue to D"};
constexpr FieldUse kCopyAhead = {"copy_ahead", "1: the next panel of rows is copied during the FMAs"};
constexpr FieldUse kLines = {"prefetch_lines", "cache lines ahead in the packed panels to prefetch; 0: none"};
constexpr FieldUse kPiece = {"piece",
                             "rows of the transposed tile that go to D at a time; 0: all at the end"};
// What is prefetched, a CpuFetch (kernels/matmul/cpu/shape.h).
constexpr FieldUse kFetchB = {"prefetch", "a CpuFetch: for each line of B that is read"},
                   kFetchPanels = {"prefetch", "a CpuFetch: the next K block of B; 0: not"},
                   kFetchInPlace = {"prefetch", "a CpuFetch: the next rows that are read in place"};

constexpr FieldUse kDotFields[] = {kTileM,
                                   kTileN,
                                   {"tile_k", "depth of a K block, for which A is packed; 0: all of K"},
                                   {"register_m", "rows of A that are multiplied together"},
                                   {"register_n", "rows of B that are multiplied together"},
                                   kUnroll,
                                   kLanes,
                                   kFetchB,
                                   {"copy_rows", "1: A is copied first"},
                                   {"group_n", "columns of D that share a K block; 0 without K blocks"},
                                   kSplit,
                                   kPace};
constexpr FieldUse kDotTFields[] = {kTileM,
                                    kTileN,
                                    {"tile_k", "depth of a K block, for which B is packed; 0: all of K"},
                                    {"register_m", "rows of A that are multiplied together"},
                                    {"register_n", "rows of B that are multiplied together"},
                                    kUnroll,
                                    kLanes,
                                    {"prefetch", "a CpuFetch: for each line of A that is read"},
                                    {"copy_rows", "1: B is copied first"},
                                    kSplit,
                                    kPace};
constexpr FieldUse kOuterFields[] = {kTileM,
                                     kTileN,
                                     {"tile_k", "rows of B in a pass over the task's columns; 0: all of K"},
                                     kRows,
                                     kVectorColumns,
                                     kUnroll,
                                     kLanes,
                                     {"prefetch", "a CpuFetch: the rows of B that come next"},
                                     kStore,
                                     kSplit,
                                     kPace};
constexpr FieldUse kPanelFields[] = {kTileM, kTileN,     kDepth, kRows,  kVectorColumns, kLanes,
                                     kLines, kCopyAhead, kStore, kSplit, kFetchPanels};
constexpr FieldUse kPanelTFields[] = {kTileM, kTileN,     kDepth,  kVectorRows, kColumns,    kLanes,
                                      kLines, kCopyAhead, kNarrow, kSplit,      kFetchPanels};
constexpr FieldUse kDirectFields[] = {kTileM, kTileN,  kDepth, kVectorRows, kColumns,      kUnroll,
                                      kLanes, kNarrow, kPiece, kChains,     kFetchInPlace, kSplit};
constexpr FieldUse kDirectAFields[] = {kTileM, kTileN,  kDepth, kRows,   kVectorColumns, kUnroll,
                                       kLanes, kNarrow, kStore, kChains, kFetchInPlace,  kSplit};
constexpr FieldUse kDirectPackedFields[] = {kTileM, kTileN,  kDepth,  kRows,         kVectorColumns, kUnroll,
                                            kLanes, kNarrow, kChains, kFetchInPlace, kSplit};
constexpr FieldUse kPackedFields[] = {kTileM, kTileN, kDepth,     kRows,  kVectorColumns,
                                      kLanes, kLines, kCopyAhead, kSplit, kPace};
constexpr FieldUse kPanelUkernelFields[] = {
    kTileM, kTileN, {"tile_k", "K, which is one block"}, kRows, kVectorColumns, kLanes, kSplit};
constexpr FieldUse kBytesFields[] = {
    kTileM,
    kTileN,
    kRows,
    kVectorColumns,
    kLanes,
    {"narrow_passes", "rows of the narrowest pass; passes halve towards the end; 0: all are equal"},
    {"prefetch", "a CpuFetch: the columns that come next; 5: not"},
    kSplit};
constexpr FieldUse kAmxBytesFields[] = {kTileM,
                                        kTileN,
                                        kDepth,
                                        kRows,
                                        kVectorColumns,
                                        kLanes,
                                        {"prefetch", "a CpuFetch: the columns that come next"},
                                        kSplit};
constexpr FieldUse kAmxRows = {"register_m", "rows of D in AMX tiles of 16 by 16"};
constexpr FieldUse kAmxColumns = {"register_n", "columns of D in AMX tiles of 16 by 16"};
constexpr FieldUse kNextRows = {"prefetch", "a CpuFetch: the next panel of rows; 5: not"};
constexpr FieldUse kCopyRows = {"copy_rows", "1: the rows are copied first"};
constexpr FieldUse kAmxFields[] = {kTileM, kTileN,    kDepth,    kAmxRows, kAmxColumns,
                                   kLanes, kNextRows, kCopyRows, kSplit};
constexpr FieldUse kAmxTFields[] = {kTileM, kTileN,    kDepth,    kAmxRows, kAmxColumns,
                                    kLanes, kNextRows, kCopyRows, kPiece,   kSplit};
constexpr FieldUse kSimtFields[] = {kGroupM,
                                    kGroupN,
                                    kSharedDepth,
                                    {"register_m", "rows of D of a thread"},
                                    {"register_n", "columns of D of a thread"},
                                    kThreads,
                                    kStages,
                                    kSplit};
constexpr FieldUse kMmaFields[] = {kGroupM,  kGroupN, kSharedDepth, kWarpRows, kWarpColumns,
                                   kThreads, kStages, kRaster,      kSplit};
constexpr FieldUse kMmaUkernelFields[] = {
    kGroupM,   kGroupN,      {"tile_k", "K, rounded up to whole stages"},
    kWarpRows, kWarpColumns, {"unroll_k", "depth of a stage in shared memory"},
    kThreads,  kStages,      kRaster,
    kSplit};
constexpr FieldUse kWgmmaFields[] = {
    kGroupM,
    kGroupN,
    kSharedDepth,
    {"register_m", "rows of D of a warpgroup"},
    {"register_n", "columns of D of a warpgroup"},
    kThreads,
    kStages,
    {"cluster_m", "workgroups of a cluster along M, which share copies of B"},
    {"cluster_n", "workgroups of a cluster along N, which share copies of A"},
    {"cluster_k", "workgroups of a cluster along the splits of K"},
    {"swap", "1: computes the transposed product, with N along the instruction's 64 rows"},
    {"plain_store", "1: the epilogue is cheap and reads no operand of D's size"},
    {"persistent", "workgroups launched, each for several tiles; 0: one per tile"},
    kRaster,
    kSplit};
constexpr FieldUse kSkinnyFields[] = {
    {"tile_m", "M"},
    kGroupN,
    {"tile_k", "most of K in a split; its part of A is in shared memory (CUDA)"},
    {"register_m", "M"},
    {"register_n", "columns of D that a workgroup computes at a time"},
    {"unroll_k", "loads of 16 registers in flight per thread"},
    kThreads,
    {"cluster_k", "workgroups of a cluster along the splits of K"},
    {"swap", "1: matrix instructions, with N along their rows; 0: FMAs"},
    kSplit};
constexpr FieldUse kXegpuFields[] = {kGroupM,
                                     kGroupN,
                                     {"tile_k", "depth of a step along K"},
                                     {"register_m", "rows of D of a subgroup"},
                                     {"register_n", "columns of D of a subgroup"},
                                     kThreads,
                                     kSplit};
// Ops on rows.
constexpr FieldUse kCpuRowFields[] = {
    {"tile_m", "rows of a task"},
    {"tile_n", "columns of a task"},
    {"register_m", "rows at a time"},
    {"register_n", "elements of a row at a time, whole vectors"},
    kLanes,
    {"split", "who merges the chunks of a row, a Split; 0: rows are whole"}};
constexpr FieldUse kGpuRowFields[] = {
    {"tile_m", "rows of a workgroup"},
    {"tile_n", "elements of a row that its threads take at a time"},
    {"chunk", "most elements of a chunk of a row; 0: rows are whole"},
    {"register_m", "rows of a thread"},
    {"register_n", "elements of a row of a thread at a time"},
    {"unroll_k", "loads that register_n is divided into"},
    kThreads,
    {"split", "who merges the chunks of a row, a Split; 0: rows are whole"}};

// The kernels of a row have the same fields for these ops and backends.
struct FamilyFields {
  uint32_t kernels, ops, backends;
  absl::Span<const FieldUse> fields;
  constexpr bool covers(KernelKind kernel, Op op, Backend backend) const {
    return (kernels & set_of(kernel)) != 0 && (ops & set_of(op)) != 0 && (backends & set_of(backend)) != 0;
  }
};
constexpr uint32_t kOnGpus = set_of(Backend::kCuda, Backend::kRocm, Backend::kSpirv);
constexpr uint32_t kProducts = kForMatmulArgmax, kOnRows = ops_on_rows();
constexpr FamilyFields kFamilies[] = {
    {set_of(KernelKind::kDot), kProducts, kOnCpu, kDotFields},
    {set_of(KernelKind::kDotT), kProducts, kOnCpu, kDotTFields},
    {set_of(KernelKind::kOuter), kProducts, kOnCpu, kOuterFields},
    {set_of(KernelKind::kPanel), kProducts, kOnCpu, kPanelFields},
    {set_of(KernelKind::kPanelT), kProducts, kOnCpu, kPanelTFields},
    {set_of(KernelKind::kDirect), kProducts, kOnCpu, kDirectFields},
    {set_of(KernelKind::kDirectA), kProducts, kOnCpu, kDirectAFields},
    {set_of(KernelKind::kDirectPacked), kProducts, kOnCpu, kDirectPackedFields},
    {set_of(KernelKind::kPacked), kProducts, kOnCpu, kPackedFields},
    {set_of(KernelKind::kBytes, KernelKind::kBytesPacked), kProducts, kOnCpu, kBytesFields},
    {set_of(KernelKind::kAmxBytes, KernelKind::kAmxBytesPacked), kProducts, kOnCpu, kAmxBytesFields},
    {set_of(KernelKind::kAmx, KernelKind::kAmxPacked), kProducts, kOnCpu, kAmxFields},
    {set_of(KernelKind::kAmxT), kProducts, kOnCpu, kAmxTFields},
    {set_of(KernelKind::kUkernel), kProducts, kOnCpu, kPanelUkernelFields},
    {set_of(KernelKind::kSimt), kProducts, kOnGpus, kSimtFields},
    {set_of(KernelKind::kMma, KernelKind::kMma32), kProducts, kOnGpus, kMmaFields},
    {set_of(KernelKind::kUkernel), kProducts, kOnGpus, kMmaUkernelFields},
    {set_of(KernelKind::kWgmma), kProducts, kOnGpus, kWgmmaFields},
    {set_of(KernelKind::kSkinny), kProducts, kOnGpus, kSkinnyFields},
    {set_of(KernelKind::kXegpu), kProducts, kOnGpus, kXegpuFields},
    {set_of(KernelKind::kRows, KernelKind::kUkernel), kOnRows, kOnCpu, kCpuRowFields},
    {set_of(KernelKind::kRows, KernelKind::kUkernel), kOnRows, kOnGpus, kGpuRowFields},
};

constexpr const FamilyFields* family_of(KernelKind kernel, Op op, Backend backend) {
  for (const FamilyFields& family : kFamilies)
    if (family.covers(kernel, op, backend)) return &family;
  return nullptr;
}

constexpr bool equal(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}
constexpr bool lists(absl::Span<const FieldUse> fields, const char* name) {
  for (size_t i = 0; i < fields.size(); ++i)
    if (equal(fields[i].name, name)) return true;
  return false;
}
// Whether every field in the table exists.
constexpr bool names_fields() {
  for (const FamilyFields& family : kFamilies)
    for (size_t i = 0; i < family.fields.size(); ++i) {
      bool found = false;
      for (const ConfigField& f : kConfigFields) found |= equal(f.name, family.fields[i].name);
      if (!found) return false;
    }
  return true;
}
static_assert(names_fields(), "the table names a field that is not in LATHE_CONFIG_FIELDS");
// Whether the table has a row for every op and backend of every kernel that needs code.
constexpr bool has_every_kernel() {
  for (const KernelRow& kernel : kKernels)
    for (const OpRow& op : ops::kRows)
      for (Backend backend : {Backend::kCpu, Backend::kCuda, Backend::kRocm, Backend::kSpirv})
        if (kernel.serves(op.op, backend) && !kernel.has(kNeedsNoCode) &&
            family_of(kernel.kind, op.op, backend) == nullptr)
          return false;
  return true;
}
static_assert(has_every_kernel(), "the table lacks a kernel of src/core/kernels.h");

}  // namespace

absl::Span<const FieldUse> fields_of(KernelKind kernel, Op op, Backend backend) {
  const FamilyFields* family = row_of(kernel).serves(op, backend) ? family_of(kernel, op, backend) : nullptr;
  return family == nullptr ? absl::Span<const FieldUse>() : family->fields;
}

Json describe_fields(const CompileConfig& config, Op op, Backend backend) {
  Json fields = Json::array();
  for (const FieldUse& use : fields_of(config.kernel, op, backend))
    for (const ConfigField& f : kConfigFields)
      if (equal(f.name, use.name))
        fields.push_back(json_object("name", use.name, "value", config.*f.member, "meaning", use.meaning));
  return fields;
}

std::string unused_field(const CompileConfig& config, Op op, Backend backend) {
  if (!row_of(config.kernel).serves(op, backend))
    return absl::StrCat("kernel '", name_of(config.kernel), "' does not compute ", name_of(op), " on ",
                        name_of(backend));
  const absl::Span<const FieldUse> fields = fields_of(config.kernel, op, backend);
  for (const ConfigField& f : kConfigFields)
    if (config.*f.member != f.initial && !lists(fields, f.name))
      return absl::StrCat("kernel '", name_of(config.kernel), "' does not use ", f.name, ", which is ",
                          config.*f.member, " instead of ", f.initial);
  return "";
}

}  // namespace lathe
