#include "sweep_plans.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/key.h"
#include "core/products.h"
#include "oracle/oracle.h"
#include "tests/config_field.h"
#include "tests/kernels/device_files.h"

namespace lathe {
namespace {

constexpr int64_t kRows[] = {1,  2,  3,   4,   5,   7,   8,   12,   16,   24,   48,
                             64, 96, 128, 160, 192, 272, 512, 1000, 2048, 4096, 8192};
constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

std::vector<Bucket> buckets() {
  std::vector<Bucket> all;
  for (int64_t m : kRows)
    if (Bucket b = m_bucket(m); std::find(all.begin(), all.end(), b) == all.end()) all.push_back(b);
  return all;
}

// Weights in the layout of a Linear layer.
std::vector<ProblemClass> layer_classes(bool whole) {
  std::vector<ProblemClass> classes;
  const std::vector<Shape> shapes = layer_shapes();
  for (size_t i = 0; i < shapes.size(); i += whole ? 1 : 4)
    for (const Bucket& m : buckets())
      for (DType t : kTypes)
        for (Alignment alignment : {Alignment::k16, Alignment::kElement}) {
          ProblemClass c = matmul_class(t, t, shapes[i].n, shapes[i].k, m);
          c.trans_b = 1;
          c.alignment = alignment;
          classes.push_back(c);
        }
  return classes;
}

// Every layout, alignment and epilogue on square, ragged and thin shapes.
std::vector<ProblemClass> formed_classes() {
  std::vector<ProblemClass> classes;
  for (const Shape& shape :
       {Shape{"square", 4096, 4096}, Shape{"ragged", 456, 51234}, Shape{"thin", 8, 4096}})
    for (int64_t m : {1, 16, 123, 2048})
      for (DType t : kTypes)
        for (int layout = 0; layout < 4; ++layout)
          for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte})
            for (bool everything : {false, true}) {
              ProblemClass c = matmul_class(t, t, shape.n, shape.k, m_bucket(m));
              c.trans_a = layout & 1, c.trans_b = layout >> 1;
              if (everything) {
                c.c = c.bias = c.residual = t;
                c.d = DType::kF32;
                c.activation = Activation::kGelu;
              }
              classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
            }
  return classes;
}

// Epilogues of layers with 16-bit inputs and outputs: an activation, and an operand of the size of D. The M select
// tiles with and without spare registers.
std::vector<ProblemClass> epilogue_classes() {
  std::vector<ProblemClass> classes;
  for (const Shape& shape :
       {Shape{"gate_up", 28672, 4096}, Shape{"square", 4096, 4096}, Shape{"narrow", 1280, 8192}})
    for (int64_t m : {128, 200, 300, 4096})
      for (DType t : {DType::kF16, DType::kBF16})
        for (Activation activation : {Activation::kGelu, Activation::kGeluTanh, Activation::kSilu})
          for (const auto& [c_too, residual_too, bias_too] :
               {std::tuple(false, false, false), std::tuple(false, true, false),
                std::tuple(false, true, true), std::tuple(true, false, true)}) {
            ProblemClass c = matmul_class(t, t, shape.n, shape.k, m_bucket(m));
            c.trans_b = 1;
            c.activation = activation;
            if (c_too) c.c = t;
            if (residual_too) c.residual = t;
            if (bias_too) c.bias = t;
            classes.push_back(with_alignment(c, Alignment::k16, /*is_cpu=*/false));
          }
  return classes;
}

// The element types and the op that the other functions do not cover.
std::vector<ProblemClass> further_classes() {
  std::vector<ProblemClass> classes;
  for (const Shape& shape : {Shape{"square", 4096, 4096}, Shape{"ragged", 456, 51234}})
    for (int64_t m : {1, 16, 123, 2048})
      for (Alignment alignment : {Alignment::k16, Alignment::kElement})
        for (int layout = 0; layout < 4; ++layout) {
          const auto add = [&](ProblemClass c) {
            c.trans_a = layout & 1, c.trans_b = layout >> 1;
            classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
          };
          const Bucket rows = m_bucket(m);
          for (DType d : {DType::kI32, DType::kBF16})
            add(matmul_class(DType::kI8, d, shape.n, shape.k, rows));
          for (DType t : {DType::kF8E4M3, DType::kF8E5M2, DType::kF8E4M3Fnuz, DType::kF8E5M2Fnuz})
            add(matmul_class(t, DType::kBF16, shape.n, shape.k, rows));
          ProblemClass rounded = matmul_class(DType::kF32, DType::kF32, shape.n, shape.k, rows);
          rounded.math = Math::kTf32;
          add(rounded);
          for (DType t : kTypes) {
            ProblemClass compared = matmul_class(t, DType::kI32, shape.n, shape.k, rows);
            compared.op = Op::kMatmulArgmax;
            compared.logits = t;
            add(compared);
          }
        }
  return classes;
}

// Experts of a mixture in every grouping, with the epilogues of the gate's two products, and M in device memory.
std::vector<ProblemClass> rows_classes() {
  std::vector<ProblemClass> classes;
  for (const Shape& shape :
       {Shape{"qwen", 768, 2048}, Shape{"mixtral", 14336, 4096}, Shape{"ragged", 2881, 333}})
    for (int64_t m : {1, 3, 16, 40, 2048})
      for (DType t : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kF8E4M3})
        for (Rows rows : {Rows::kDeviceM, Rows::kOffsets, Rows::kRowIds, Rows::kCounts, Rows::kSumBF16})
          for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
            const bool sums = rows == Rows::kSumBF16;
            ProblemClass c = matmul_class(t, t == DType::kI8 || sums ? DType::kF32 : DType::kBF16, shape.n,
                                          shape.k, m_bucket(m));
            c.trans_b = m != 16;
            c.rows = rows;
            if (rows == Rows::kRowIds) c.residual = DType::kF32, c.combine = Combine::kMultiply;
            if (rows == Rows::kRowIds) c.activation = Activation::kSilu;
            if (rows == Rows::kCounts) c.bias = DType::kBF16;
            classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
          }
  return classes;
}

std::vector<ProblemClass> argmax_classes() {
  std::vector<ProblemClass> classes;
  for (const Bucket& row : row_buckets())
    for (DType t : kTypes) {
      ProblemClass c = argmax_class(t, row);
      classes.push_back(with_alignment(c, Alignment::k16, /*is_cpu=*/false));
      c.wants_values = 1;
      classes.push_back(c);
    }
  return classes;
}

// LM heads of greedy decoding, and one of a prefill.
std::vector<ProblemClass> matmul_argmax_classes() {
  std::vector<ProblemClass> classes;
  for (int64_t n : {128256, 151937})
    for (int64_t m : {1, 16, 64, 2048})
      for (DType t : {DType::kF16, DType::kBF16}) {
        ProblemClass c = matmul_class(t, DType::kI64, n, 4096, m_bucket(m));
        c.op = Op::kMatmulArgmax;
        c.logits = t;
        c.trans_b = 1;
        c.bias = n % 2 == 0 ? DType::kNone : t;
        classes.push_back(with_alignment(c, Alignment::k16, /*is_cpu=*/false));
      }
  return classes;
}

constexpr DType kBlocks[] = {DType::kQ8_0, DType::kQ4_0,  DType::kQ4_1,  DType::kQ4_K,
                             DType::kQ6_K, DType::kMXFP4, DType::kU4x128};

// Weights in the block formats that GPUs have, by f32 and f16, two formats also by bf16.
std::vector<ProblemClass> block_classes() {
  std::vector<ProblemClass> classes;
  for (const Shape& shape : {Shape{"square", 4096, 4096}, Shape{"ragged", 333, 2816}})
    for (int64_t m : {1, 4, 8, 16, 33, 123, 2048})
      for (DType b : kBlocks)
        for (DType a : {DType::kF32, DType::kF16, DType::kBF16})
          for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
            if (a == DType::kBF16 && (b != DType::kQ8_0 && b != DType::kQ4_K)) continue;
            ProblemClass c = matmul_class(a, a, shape.n, shape.k, m_bucket(m));
            c.b = b;
            c.trans_b = 1;
            if (alignment == Alignment::kElement) c.bias = DType::kF32, c.activation = Activation::kSilu;
            const bool compares = find_product(a, b)->ops.has(Op::kMatmulArgmax);
            if (compares && a == DType::kF16 && alignment == Alignment::k16 && (m == 16 || m == 123)) {
              c.op = Op::kMatmulArgmax;
              c.d = DType::kI64, c.logits = a;
            }
            classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
          }
  return classes;
}

// Experts in those formats in every grouping, and M in device memory: the shapes and epilogues of rows_classes(), with
// the rows of gpt-oss. Each class has one of the groupings in turn.
std::vector<ProblemClass> block_rows_classes() {
  constexpr Rows kForms[] = {Rows::kOffsets, Rows::kRowIds,  Rows::kCounts, Rows::kIndexed,
                             Rows::kSumF32,  Rows::kSumBF16, Rows::kDeviceM};
  std::vector<ProblemClass> classes;
  for (const Shape& shape : {Shape{"qwen", 768, 2048}, Shape{"oss", 2880, 2880}, Shape{"ragged", 333, 2816}})
    for (int64_t m : {1, 3, 7, 16, 40, 2048})
      for (DType b : kBlocks)
        for (DType a : kTypes)
          for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
            if (shape.k % block_elements(b) != 0) continue;
            const Rows rows = kForms[classes.size() % std::size(kForms)];
            const bool sums = sum_of(rows) != DType::kNone;
            ProblemClass c =
                matmul_class(a, sums ? DType::kF32 : DType::kBF16, shape.n, shape.k, m_bucket(m));
            c.b = b;
            c.trans_b = 1;
            c.rows = rows;
            if (rows == Rows::kRowIds || rows == Rows::kSumF32)
              c.residual = DType::kF32, c.combine = Combine::kMultiply, c.activation = Activation::kSilu;
            if (rows == Rows::kCounts || rows == Rows::kSumBF16) c.bias = DType::kBF16;
            classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
          }
  return classes;
}

constexpr DType kF8 = DType::kF8E4M3x128, kMx8 = DType::kMXF8E4M3, kMx8e5 = DType::kMXF8E5M2,
                kMx4 = DType::kMXF4E2M1, kNv4 = DType::kNVF4E2M1;
constexpr std::pair<DType, DType> kScaledPairs[] = {
    {kF8, kF8},           {kMx8, kMx8},         {kMx8e5, kMx8e5},      {kMx4, kMx4},
    {kNv4, kNv4},         {kMx8, kMx4},         {kNv4, kMx8},          {DType::kF16, kF8},
    {DType::kBF16, kMx4}, {DType::kBF16, kNv4}, {DType::kF16, kMx8e5}, {DType::kF32, kF8},
    {DType::kF32, kMx8},  {DType::kF32, kNv4}};

// Pairs of A and B in blocks whose scales are apart, plain, in every grouping, and with M in device memory.
std::vector<ProblemClass> scaled_classes() {
  constexpr Rows kForms[] = {Rows::kPlain,   Rows::kOffsets, Rows::kRowIds, Rows::kCounts,
                             Rows::kIndexed, Rows::kSumBF16, Rows::kPlain,  Rows::kDeviceM};
  std::vector<ProblemClass> classes;
  for (const Shape& shape : {Shape{"deepseek", 4096, 7168}, Shape{"ragged", 333, 2816}})
    for (int64_t m : {1, 3, 8, 16, 33, 123, 2048})
      for (const auto& [a, b] : kScaledPairs)
        for (Alignment alignment : {Alignment::k16, Alignment::kElement, Alignment::kByte}) {
          const Rows rows = kForms[classes.size() % std::size(kForms)];
          ProblemClass c = matmul_class(a, sum_of(rows) != DType::kNone ? DType::kF32 : DType::kBF16, shape.n,
                                        shape.k, m_bucket(m));
          c.b = b;
          c.trans_b = 1;
          c.rows = rows;
          if (rows == Rows::kRowIds)
            c.residual = DType::kF32, c.combine = Combine::kMultiply, c.activation = Activation::kSilu;
          if (rows == Rows::kCounts) c.bias = DType::kBF16;
          classes.push_back(with_alignment(c, alignment, /*is_cpu=*/false));
        }
  return classes;
}

// Experts for tensor cores that multiply fp8 and fp4 as they are, in every grouping.
std::vector<ProblemClass> scaled_rows_classes() {
  constexpr std::pair<DType, DType> kPairs[] = {{DType::kF8E4M3x128, DType::kF8E4M3x128},
                                                {DType::kMXF8E4M3, DType::kMXF8E4M3},
                                                {DType::kMXF8E4M3, DType::kMXF4E2M1},
                                                {DType::kMXF4E2M1, DType::kMXF4E2M1},
                                                {DType::kNVF4E2M1, DType::kNVF4E2M1}};
  std::vector<ProblemClass> classes;
  for (const Shape& shape : {Shape{"deepseek", 4096, 7168}, Shape{"ragged", 328, 2720}})
    for (int64_t m : {8, 40, 123, 512, 2048})
      for (const auto& [a, b] : kPairs)
        for (Rows rows : {Rows::kOffsets, Rows::kRowIds, Rows::kCounts, Rows::kIndexed, Rows::kSumBF16}) {
          if (shape.k % block_elements(a) != 0) continue;
          ProblemClass c = matmul_class(a, sum_of(rows) != DType::kNone ? DType::kF32 : DType::kBF16, shape.n,
                                        shape.k, m_bucket(m));
          c.b = b;
          c.trans_b = 1;
          c.rows = rows;
          if (rows == Rows::kIndexed)
            c.residual = DType::kF32, c.combine = Combine::kMultiply, c.activation = Activation::kSilu;
          classes.push_back(with_alignment(c, Alignment::k16, /*is_cpu=*/false));
        }
  return classes;
}

class Collector {
 public:
  // Adds the first choice or every legal plan. It is a failure if the device has no plan for the class.
  void add(const DeviceFacts& facts, const ProblemClass& c, bool every_legal) {
    const auto answer = rank_plans(c, facts, {1, 0});
    ASSERT_TRUE(answer.ok()) << facts.name << " " << to_json(c).dump() << ": " << answer.status();
    for (size_t i = 0; i < (every_legal ? answer->legal : 1); ++i) {
      const Plan& plan = answer->ranked[i].plan;
      std::string key = key_of(c, plan.config, facts.target, "").text;
      if (seen_.insert(key).second) plans.push_back({plan, &facts, c, std::move(key)});
    }
  }
  std::vector<SweepPlan> plans;

 private:
  std::set<std::string> seen_;
};

// The shipped devices, and one with sm_90. A device whose compute capability has no target of its own is treated like
// that one.
std::vector<DeviceFacts> devices() {
  std::vector<DeviceFacts> all = shipped_facts();
  DeviceFacts later = shipped_facts("sm_90a");
  later.name += " as sm_90";
  later.target.arch = "sm_90";
  all.push_back(later);
  return all;
}

template <typename Visit>
void for_each_device(Backend backend, Visit visit) {
  static const std::vector<DeviceFacts> all = devices();
  for (const DeviceFacts& facts : all)
    if (facts.target.backend == backend) visit(facts);
}

}  // namespace

std::string SweepPlan::family() const {
  const char* rows = is_grouped(problem.rows)         ? "grouped "
                     : problem.rows == Rows::kDeviceM ? "device_m "
                                                      : "";
  const char* blocks = is_blocks(problem.a) ? "scaled " : is_blocks(problem.b) ? "blocks " : "";
  if (problem.op == Op::kMatmul) return absl::StrCat(rows, blocks, name_of(config.kernel()));
  return absl::StrCat(rows, blocks, name_of(problem.op), " ", name_of(config.kernel()));
}
std::string SweepPlan::describe() const {
  return absl::StrCat(facts->name, " ", family(), " ", to_json(problem).dump(), " ", to_json(config).dump());
}

std::string SweepPlan::form() const {
  const CompileConfig& f = config;
  const auto ends = [](int64_t size, int64_t tile) {
    return size % std::max<int64_t>(tile, 1) == 0 ? "w" : "r";
  };
  // Splits and tile order depend on the sizes only and are constants in the code.
  ProblemClass c = problem;
  c.m_lo = c.m_hi = c.n = c.k = 0;
  CompileConfig plain = f;
  for (const char* order : {"persistent", "raster"})
    plain.set(order, std::min<int64_t>(field_or(f, order, 0), 1));
  return absl::StrCat(facts->target.arch, to_json(c).dump(), to_json(plain).dump(),
                      ends(problem.n, f.tile_n()), ends(problem.k, depth_of(f)), ends(problem.n, 8),
                      ends(problem.k, 8));
}

std::vector<SweepPlan> chosen_plans(Backend backend, bool whole) {
  Collector collector;
  for_each_device(backend, [&](const DeviceFacts& facts) {
    for (const auto& classes : {layer_classes(whole), formed_classes(), epilogue_classes(), further_classes(),
                                rows_classes(), argmax_classes(), matmul_argmax_classes(), block_classes(),
                                block_rows_classes(), scaled_classes(), scaled_rows_classes()})
      for (const ProblemClass& c : classes)
        if (backend != Backend::kSpirv || c.rows == Rows::kPlain)
          collector.add(facts, c, /*every_legal=*/false);
  });
  return collector.plans;
}

std::vector<SweepPlan> legal_plans(Backend backend) {
  Collector collector;
  for_each_device(backend, [&](const DeviceFacts& facts) {
    for (int64_t m : {1, 8, 48, 512, 8192})
      for (DType t : kTypes) {
        ProblemClass c = matmul_class(t, t, 4096, 4096, m_bucket(m));
        c.trans_b = 1;
        c.alignment = Alignment::k16;
        collector.add(facts, c, /*every_legal=*/true);
      }
    for (DType b : kBlocks) {
      ProblemClass c = matmul_class(DType::kF16, DType::kF16, 4096, 4096, m_bucket(8192));
      c.b = b;
      c.trans_b = 1;
      collector.add(facts, with_alignment(c, Alignment::k16, /*is_cpu=*/false), /*every_legal=*/true);
    }
    if (backend == Backend::kRocm)
      for (const auto& [a, b] : kScaledPairs)
        for (Alignment alignment : {Alignment::k16, Alignment::kByte}) {
          ProblemClass c = matmul_class(a, DType::kBF16, 4096, 4096, m_bucket(8192));
          c.b = b;
          c.trans_b = 1;
          collector.add(facts, with_alignment(c, alignment, /*is_cpu=*/false), /*every_legal=*/true);
        }
    for (const ProblemClass& c : argmax_classes()) collector.add(facts, c, /*every_legal=*/true);
  });
  return collector.plans;
}

std::vector<SweepPlan> ukernel_plans(Backend backend) {
  std::vector<SweepPlan> plans = legal_plans(backend);
  const auto generated = [](const SweepPlan& p) { return p.config.kernel() != KernelKind::kUkernel; };
  plans.erase(std::remove_if(plans.begin(), plans.end(), generated), plans.end());
  return sample(plans, 1, [](const SweepPlan& p) {
    return absl::StrCat(p.facts->target.arch, p.config.ukernel.function, p.config.split());
  });
}

std::vector<SweepPlan> sample(const std::vector<SweepPlan>& plans, size_t count,
                              std::string (*group)(const SweepPlan&)) {
  std::map<std::string, std::vector<const SweepPlan*>> groups;
  for (const SweepPlan& plan : plans) groups[group(plan)].push_back(&plan);
  std::vector<SweepPlan> taken;
  for (const auto& [name, members] : groups)
    for (size_t i = 0; i < std::min(count, members.size()); ++i)
      taken.push_back(*members[i * members.size() / std::min(count, members.size())]);
  return taken;
}

}  // namespace lathe
