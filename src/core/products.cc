#include "core/products.h"

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "core/u4_groups.h"

namespace lathe {
namespace {

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnsupported = absl::StatusCode::kUnimplemented;

ClassDefect not_one_of(const char* field, DType t, Set<DType> allowed) {
  return {field, kUnsupported, dtype_refusal(t, allowed)};
}

// The dtypes of A, or of B, in the op's rows.
Set<DType> operands_of(Op op, DType Product::*operand) {
  Set<DType> set;
  for (const Product& p : kProducts)
    if (p.ops.has(op) && !has_scales_apart(p.*operand)) set.bits |= Set<DType>::bit(p.*operand);
  return set;
}
Set<DType> partners_of(Op op, DType b) {
  Set<DType> set;
  for (const Product& p : kProducts)
    if (p.ops.has(op) && p.b == b) set.bits |= Set<DType>::bit(p.a);
  return set;
}

// The dtypes of B that these devices multiply A's dtype by.
Set<DType> weights_for(const ProblemClass& c, Devices devices) {
  Set<DType> set;
  for (const Product& p : kProducts)
    if (p.ops.has(c.op) && p.a == c.a && meet(p.kernels, devices) && !has_scales_apart(p.b))
      set.bits |= Set<DType>::bit(p.b);
  return set;
}

// Why no row of the op has these dtypes.
ClassDefect explain_pair(const ProblemClass& c) {
  const Set<DType> of_a = operands_of(c.op, &Product::a), of_b = operands_of(c.op, &Product::b);
  for (const auto& [field, t] : {std::pair{"a", c.a}, {"b", c.b}})
    if (t == DType::kF4E2M1)
      return {field, kUnsupported, "f4e2m1 is multiplied only with block scales (lathe_scale, PER_BLOCK)"};
  if (is_u4_source(c.b))
    return {"b", kUnsupported,
            absl::StrCat(name_of(c.b), " is multiplied only after lathe_pack_weights made u4_128 of it")};
  if (!of_a.has(c.a)) return not_one_of("a", c.a, of_a);
  if (!of_b.has(c.b)) return not_one_of("b", c.b, of_b);
  if (is_blocks(c.b))
    return {"a", kUnsupported,
            absl::StrCat("dtype ", name_of(c.a), " cannot be multiplied by ", name_of(c.b), "; use ",
                         names_of(partners_of(c.op, c.b)))};
  return {"b", kInvalid,
          absl::StrCat("dtype ", name_of(c.b), " differs from ", name_of(c.a), ", the dtype of a")};
}

ClassDefect check_dtypes(const ProblemClass& c, const Product& p, Devices devices) {
  if (!meet(p.requests, devices))
    return {
        "b", kUnsupported,
        absl::StrCat("only the CPU multiplies ", name_of(c.a), " by ", name_of(c.b),
                     "; this device multiplies ", name_of(c.a), " by ", names_of(weights_for(c, devices)))};
  if (!has_layout(p, c.trans_b != 0))
    return {"b", kUnsupported,
            absl::StrCat(name_of(c.b), " has its blocks along K, so only COLUMN_MAJOR is supported")};
  if (is_blocks(c.a) && c.trans_a != 0)
    return {"a", kUnsupported,
            absl::StrCat(name_of(c.a), " has its blocks along K, so only ROW_MAJOR is supported")};
  for (const DType t : {c.a, c.b})
    if (c.k % block_elements(t) != 0)
      return {"k", kInvalid,
              absl::StrCat(c.k, " is not a multiple of ", block_elements(t), ", the elements of a block of ",
                           name_of(t))};
  if (c.op == Op::kMatmulArgmax) {
    if (!kFloats.has(c.logits)) return not_one_of("logits", c.logits, kFloats);
    if (!kIndices.has(c.d)) return not_one_of("d", c.d, kIndices);
  } else if (!p.results.has(c.d)) {
    return not_one_of("d", c.d, p.results);
  }
  for (const auto& [field, dtype] : {std::pair{"c", c.c}, {"bias", c.bias}, {"residual", c.residual}})
    if (dtype != DType::kNone && !kFloats.has(dtype)) return not_one_of(field, dtype, kFloats);
  if (c.combine == Combine::kMultiply && c.residual == DType::kNone)
    return {"combine", kInvalid, "multiply needs a residual"};
  if (!takes_math(c.math, c.a, c.b))
    return {"math", kInvalid,
            absl::StrCat(name_of(c.math), " does not apply to ", name_of(c.a), " by ", name_of(c.b),
                         "; use strict")};
  return {};
}

ClassDefect check_scales(const ProblemClass& c, const Product& p, Devices devices) {
  const struct {
    const char* field;
    bool set;
  } quantised[] = {{"scale_a", c.scale_a != Scale::kNone},
                   {"scale_b", c.scale_b != Scale::kNone},
                   {"zero_a", c.zero_a != 0},
                   {"zero_b", c.zero_b != Scale::kNone}};
  for (const auto& [field, set] : quantised) {
    if (!set) continue;
    if (c.op != Op::kMatmul || !p.has_scales)
      return {field, kUnsupported, "only a matmul of i8 has scales and zero points"};
    if (!meet(devices, Devices::kCpu))
      return {field, kUnsupported, "only the CPU has kernels with scales and zero points"};
  }
  if (c.zero_b != Scale::kNone && (c.zero_b == Scale::kPerChannel) != (c.scale_b == Scale::kPerChannel))
    return {"zero_b", kInvalid, "B must have one zero point per scale, or a single one without scales"};
  return {};
}

// i32 results are the sums themselves.
ClassDefect check_sums(const ProblemClass& c) {
  if (c.op != Op::kMatmul || c.d != DType::kI32) return {};
  if (has_epilogue(c)) {
    const char* with = c.c != DType::kNone          ? "c"
                       : c.bias != DType::kNone     ? "bias"
                       : c.residual != DType::kNone ? "residual"
                                                    : "activation";
    return {"d", kInvalid,
            absl::StrCat("i32 holds the exact sums, which have no epilogue: ", with, " is set")};
  }
  if (c.scale_a != Scale::kNone || c.scale_b != Scale::kNone)
    return {"d", kInvalid, "i32 holds the exact sums, which have no scales: use a float dtype"};
  return {};
}

// Packed blocks have kernels only where A is rounded to bytes.
std::string packed_blocks_refusal(const ProblemClass& c) {
  if (!is_blocks(c.b)) return "";
  const std::string name(name_of(c.b));
  if (c.math != Math::kInt8) return absl::StrCat("packed ", name, " needs math int8");
  if (c.trans_a != 0) return absl::StrCat("packed ", name, " needs a ROW_MAJOR A");
  if (c.determinism == Determinism::kBatchInvariant)
    return absl::StrCat("packed ", name, " does not support batch_invariant");
  return "";
}

ClassDefect check_packed(const ProblemClass& c, const Product& p, Devices devices) {
  if (c.packed_b == kNotPacked) return {};
  if (!can_be_packed(p) || c.trans_b == 0 || !meet(devices, Devices::kCpu))
    return {"packed_b", kUnsupported,
            absl::StrCat("packed weights are supported only on the CPU, with COLUMN_MAJOR weights of ",
                         packable_names())};
  if (std::string why = packed_blocks_refusal(c); !why.empty()) return {"packed_b", kUnsupported, why};
  // A class of a manifest is for any device, and may have a zero point that no device supports.
  if (devices == Devices::kCpu && c.zero_a != 0)
    return {"packed_b", kUnsupported, "packed weights do not support a zero point of A"};
  return {};
}

}  // namespace

std::string packing_refusal(const ProblemClass& c, const Target& target) {
  if (std::string why = packed_blocks_refusal(c); !why.empty()) return why;
  if (is_blocks(c.b) && !(target.arch == "x86-64" && target.has("avx2")))
    return absl::StrCat("packed ", name_of(c.b), " needs AVX2");
  return "";
}

std::string names_of(Set<DType> set) {
  std::string names;
  for (const DTypeRow& row : kDTypes)
    if (set.has(row.value)) absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  return names;
}

std::string dtype_refusal(DType t, Set<DType> allowed) {
  const bool single = (allowed.bits & (allowed.bits - 1)) == 0;
  return absl::StrCat("dtype ", name_of(t), single ? " is not " : " is not one of ", names_of(allowed));
}

ClassDefect find_defect(const ProblemClass& c, Devices devices) {
  if (has_program(c.op)) return {};  // its program was checked when it was parsed
  if (has_row_lengths(c.op)) {
    if (!kFloats.has(c.a)) return not_one_of("a", c.a, kFloats);
    return kIndices.has(c.d) ? ClassDefect() : not_one_of("d", c.d, kIndices);
  }
  const Product* p = find_product(c.a, c.b);
  if (p == nullptr || !p->ops.has(c.op)) return explain_pair(c);
  ClassDefect defect = check_dtypes(c, *p, devices);
  if (defect.ok()) defect = check_packed(c, *p, devices);
  if (defect.ok()) defect = check_scales(c, *p, devices);
  if (defect.ok()) defect = check_sums(c);
  return defect;
}

}  // namespace lathe
