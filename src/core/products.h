// The table of products: which dtypes A and B may have in a matmul or matmul_argmax, and every rule that
// depends on the pair. Requests, manifests, the oracle, the generic kernels, the tests and the table in
// docs/numerics.md all read it.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "core/facts.h"
#include "core/problem.h"

namespace lathe {

// A set of enum values below 64.
template <typename E>
struct Set {
  uint64_t bits = 0;

  constexpr Set() = default;
  template <typename... Values>
  constexpr explicit Set(E first, Values... rest) : bits((bit(first) | ... | bit(rest))) {}
  constexpr bool has(E e) const { return static_cast<uint32_t>(e) < 64 && (bits & bit(e)) != 0; }
  static constexpr uint64_t bit(E e) { return uint64_t{1} << static_cast<uint32_t>(e); }
};

constexpr Set<DType> dtypes_of(DTypeKind kind) {
  Set<DType> set;
  for (const DTypeRow& row : kDTypes)
    if (row.kind == kind) set.bits |= Set<DType>::bit(row.value);
  return set;
}
inline constexpr Set<DType> kFloats = dtypes_of(DTypeKind::kFloat);
inline constexpr Set<DType> kFloatsAndI32 = [] {
  Set<DType> set = kFloats;
  set.bits |= Set<DType>::bit(DType::kI32);
  return set;
}();
// The block formats that GPUs decode (kernels/matmul/emit_blocks.h).
inline constexpr Set<DType> kGpuBlocks = Set<DType>(
    DType::kQ4_0, DType::kQ8_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K, DType::kMXFP4, DType::kU4x128,
    DType::kF8E4M3x128, DType::kMXF8E4M3, DType::kMXF8E5M2, DType::kMXF4E2M1, DType::kNVF4E2M1);
inline constexpr Set<DType> kIndices = Set<DType>(DType::kI32, DType::kI64);
std::string names_of(Set<DType> set);  // "f32, f16, bf16"
// "dtype i32 is not one of f32, f16, bf16", or "dtype f16 is not f32" if only one is allowed.
std::string dtype_refusal(DType t, Set<DType> allowed);

// The devices that a rule is about. No rule differs among the GPU backends.
enum class Devices : uint8_t { kCpu = 1, kGpus = 2, kAll = 3 };
constexpr bool meet(Devices a, Devices b) { return (static_cast<int>(a) & static_cast<int>(b)) != 0; }
constexpr Devices devices_of(Backend b) { return b == Backend::kCpu ? Devices::kCpu : Devices::kGpus; }

// One pair of dtypes that Lathe multiplies. D, C, bias, residual and logits may be any float, each
// independently.
struct Product {
  DType a, b;
  DType sums;          // dtype of the accumulator
  Set<DType> results;  // of D in a matmul. i32: the exact sums, without scales and epilogue
  Set<Op> ops;         // kMatmul, kMatmulArgmax
  Devices kernels;     // devices that have kernels
  Devices requests;    // devices that accept requests; without kernels they serve empty products only
  Set<Math> maths;     // the values of `math` that change something
  bool has_scales;     // CPU, matmul: A and B may have scales and zero points
  const char* on_cpu;  // the arithmetic, for documents; empty: no kernels
  const char* on_cuda;
  const char* on_rocm;
};

namespace products_internal {

inline constexpr Set<Op> kMatmulOnly = Set<Op>(Op::kMatmul);
inline constexpr Set<Op> kBothOps = Set<Op>(Op::kMatmul, Op::kMatmulArgmax);
inline constexpr Set<Math> kStrictOnly = Set<Math>(Math::kStrict);

// The pairs of plain dtypes. fp8 has no kernels on the CPU, which accepts it for empty products.
// clang-format off
inline constexpr Product kPlain[] = {
    {DType::kF32, DType::kF32, DType::kF32, kFloats, kBothOps, Devices::kAll, Devices::kAll,
     Set<Math>(Math::kStrict, Math::kTf32), false,
     "f32 FMAs", "f32 FMAs; tensor cores from sm_80 with `math` TF32", "f32 MFMA"},
    {DType::kF16, DType::kF16, DType::kF32, kFloats, kBothOps, Devices::kAll, Devices::kAll, kStrictOnly, false,
     "f32 FMAs", "tensor cores from sm_80; warpgroups on sm_90a", "MFMA, WMMA"},
    {DType::kBF16, DType::kBF16, DType::kF32, kFloats, kBothOps, Devices::kAll, Devices::kAll, kStrictOnly, false,
     "AVX512-BF16, AArch64 bfdot, AMX; else f32 FMAs", "tensor cores from sm_80; warpgroups on sm_90a",
     "MFMA, WMMA"},
    {DType::kF32, DType::kF16, DType::kF32, kFloats, kBothOps, Devices::kCpu, Devices::kCpu, kStrictOnly, false,
     "f32 FMAs; B is widened exactly", "", ""},
    {DType::kF32, DType::kBF16, DType::kF32, kFloats, kBothOps, Devices::kCpu, Devices::kCpu,
     Set<Math>(Math::kStrict, Math::kBf16), false,
     "f32 FMAs; B is widened exactly. With `math` BF16 as bf16", "", ""},
    {DType::kI8, DType::kI8, DType::kI32, kFloatsAndI32, kMatmulOnly, Devices::kAll, Devices::kAll, kStrictOnly,
     true,
     "AVX512-VNNI, AArch64 sdot, AMX; else 16-bit products added in pairs",
     "tensor cores from sm_80; warpgroups on sm_90a", "MFMA, WMMA"},
    {DType::kF8E4M3, DType::kF8E4M3, DType::kF32, kFloats, kMatmulOnly, Devices::kGpus, Devices::kAll,
     kStrictOnly, false,
     "", "tensor cores from sm_89; warpgroups on sm_90a, each block of K added in f32", "gfx950, gfx1201, gfx942"},
    {DType::kF8E5M2, DType::kF8E5M2, DType::kF32, kFloats, kMatmulOnly, Devices::kGpus, Devices::kAll,
     kStrictOnly, false,
     "", "tensor cores from sm_89; warpgroups on sm_90a, each block of K added in f32", "gfx950, gfx1201"},
    {DType::kF8E4M3Fnuz, DType::kF8E4M3Fnuz, DType::kF32, kFloats, kMatmulOnly, Devices::kGpus, Devices::kAll,
     kStrictOnly, false,
     "", "f32 FMAs", "gfx942"},
    {DType::kF8E5M2Fnuz, DType::kF8E5M2Fnuz, DType::kF32, kFloats, kMatmulOnly, Devices::kGpus, Devices::kAll,
     kStrictOnly, false,
     "", "f32 FMAs", "gfx942"}};
// clang-format on
inline constexpr size_t kPlainCount = sizeof(kPlain) / sizeof(kPlain[0]);

// A float by a block format. One row per pair, made from the format's row in kDTypes.
constexpr Product block_product(DType a, const DTypeRow& b) {
  const Devices devices = kGpuBlocks.has(b.value) ? Devices::kAll : Devices::kCpu;
  const char* on_rocm = kGpuBlocks.has(b.value)
                            ? "f32 FMAs; B is decoded exactly. With A in f16 or bf16 MFMA or WMMA, exact too"
                            : "";
  const char* on_cuda =
      kGpuBlocks.has(b.value)
          ? "f32 FMAs; B is decoded exactly. With A in f16 or bf16 tensor cores from sm_80, exact too"
          : "";
  return {a,
          b.value,
          DType::kF32,
          kFloats,
          kBothOps,
          devices,
          devices,
          Set<Math>(Math::kStrict, Math::kInt8),
          false,
          "f32 FMAs; B is decoded exactly. With `math` INT8 products of bytes with AVX2 or AArch64's dotprod",
          on_cuda,
          on_rocm};
}
// A product of a float and a block format that kernels only decode to f32.
constexpr Product group_product(DType a, const DTypeRow& b) {
  Product p = block_product(a, b);
  p.ops = kMatmulOnly;
  p.maths = kStrictOnly;
  p.on_cpu = "f32 FMAs; B is decoded to f32";
  if (b.apart > 0) {
    p.on_cuda =
        "f32 FMAs; B is decoded to f32. With A in f16 or bf16 tensor cores from sm_80; sums of blocks are "
        "scaled";
    p.on_rocm = "as on CUDA, with MFMA or WMMA";
  }
  return p;
}
// Both operands with scales apart. A CPU's call decodes A first, so its kernels are those of f32 by blocks.
constexpr Product scaled_product(DType a, DType b) {
  return {a,
          b,
          DType::kF32,
          kFloats,
          kMatmulOnly,
          Devices::kGpus,
          Devices::kAll,
          kStrictOnly,
          false,
          "f32 FMAs; A and B are decoded to f32",
          "tensor cores from sm_80, sums of blocks are scaled; else f32 FMAs, A and B are decoded to f32",
          "MFMA or WMMA, sums of blocks are scaled; gfx950 takes codes and scales, except NVFP4's"};
}
constexpr size_t count_of_scales_apart() {
  size_t count = 0;
  for (const DTypeRow& row : kDTypes) count += row.apart > 0;
  return count;
}
constexpr size_t count_of(DTypeKind kind) {
  size_t count = 0;
  for (const DTypeRow& row : kDTypes) count += row.kind == kind;
  return count;
}
inline constexpr size_t kCount =
    kPlainCount +
    count_of(DTypeKind::kFloat) * (count_of(DTypeKind::kBlocks) + count_of(DTypeKind::kGroups)) +
    count_of_scales_apart() * count_of_scales_apart();

constexpr std::array<Product, kCount> make_table() {
  std::array<Product, kCount> table{};
  size_t next = 0;
  for (const Product& p : kPlain) table[next++] = p;
  for (const DTypeRow& b : kDTypes)
    for (const DTypeRow& a : kDTypes)
      if (b.kind == DTypeKind::kBlocks && a.kind == DTypeKind::kFloat)
        table[next++] = block_product(a.value, b);
  for (const DTypeRow& b : kDTypes)
    for (const DTypeRow& a : kDTypes)
      if (b.kind == DTypeKind::kGroups && a.kind == DTypeKind::kFloat)
        table[next++] = group_product(a.value, b);
  for (const DTypeRow& b : kDTypes)
    for (const DTypeRow& a : kDTypes)
      if (b.apart > 0 && a.apart > 0) table[next++] = scaled_product(a.value, b.value);
  return table;
}

}  // namespace products_internal

inline constexpr std::array<Product, products_internal::kCount> kProducts = products_internal::make_table();

// The row of a pair by the dtypes' values, so that a request finds it with one load: 1 + its index, 0 if
// there is none.
struct ProductIndex {
  uint8_t row[kDTypeCount][kDTypeCount] = {};
};
inline constexpr ProductIndex kProductIndex = [] {
  ProductIndex index;
  for (size_t i = 0; i < kProducts.size(); ++i)
    index.row[static_cast<size_t>(kProducts[i].a)][static_cast<size_t>(kProducts[i].b)] =
        static_cast<uint8_t>(i + 1);
  return index;
}();
static_assert(kProducts.size() < 256, "ProductIndex holds bytes");

// The row of A and B, null if Lathe does not multiply them. Any bits may be passed as a dtype.
constexpr const Product* find_product(DType a, DType b) {
  if (!has_row(a) || !has_row(b)) return nullptr;
  const uint8_t row = kProductIndex.row[static_cast<size_t>(a)][static_cast<size_t>(b)];
  return row == 0 ? nullptr : &kProducts[row - 1u];
}

// Whether `math` changes anything for these dtypes. kStrict applies to all.
constexpr bool takes_math(Math math, DType a, DType b) {
  if (math == Math::kStrict) return true;
  const Product* p = find_product(a, b);
  return p != nullptr && p->maths.has(math);
}

// Blocks lie along K, so B must be COLUMN_MAJOR.
constexpr bool has_layout(const Product& p, bool trans_b) { return trans_b || !is_blocks(p.b); }

// Whether B of these operands can be packed by lathe_pack_weights (CPU).
constexpr bool can_be_packed(const Product& p) { return row_of(p.b).packed_word > 0; }

// Why no kernel of this target would multiply the class if its B were packed; "" if one would. Packed blocks are
// multiplied as bytes only.
std::string packing_refusal(const ProblemClass& c, const Target& target);

// Whether D is more than the product. Exact i32 sums have no epilogue.
constexpr bool has_epilogue(const ProblemClass& c) {
  return c.c != DType::kNone || c.bias != DType::kNone || c.residual != DType::kNone ||
         c.activation != Activation::kNone;
}

// The first rule of the table that a class breaks.
struct ClassDefect {
  const char* field = nullptr;  // of ProblemClass; null: the class breaks no rule
  // kInvalidArgument: the class contradicts itself. kUnimplemented: no kernel, here or on any device.
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;  // "dtype i32 is not one of f32, f16, bf16"

  bool ok() const { return field == nullptr; }
};

// Checks the dtypes, layouts, math, scales and packing of `c` on these devices (kAll: on any device). Sizes,
// buckets and fields that the op does not use are the caller's part.
ClassDefect find_defect(const ProblemClass& c, Devices devices);

}  // namespace lathe
