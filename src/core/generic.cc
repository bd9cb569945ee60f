#include "core/generic.h"

namespace lathe {
namespace {

int64_t field(int at, DType t) { return static_cast<int64_t>(t) << at; }

// A matmul_argmax of block formats would need three more kernels for each format and target. Their misses block instead,
// and so do those of the formats that have to be decoded to f32.
bool has_generic_kernel(Op op, DType b) {
  return !is_blocks(b) || (op == Op::kMatmul && row_of(b).kind != DTypeKind::kGroups);
}

// i8 products that store exact i32 sums need a payload of their own, which never converts to f32.
bool stores_exact_sums(const ProblemClass& c) { return c.op == Op::kMatmul && c.d == DType::kI32; }

}  // namespace

int64_t form_of(const ProblemClass& c) {
  return int64_t{c.trans_a} << Form::kTransA | int64_t{c.trans_b} << Form::kTransB |
         static_cast<int64_t>(c.activation) << Form::kActivation |
         static_cast<int64_t>(c.combine) << Form::kCombine | field(Form::kC, c.c) | field(Form::kD, c.d) |
         field(Form::kBias, c.bias) | field(Form::kResidual, c.residual) | field(Form::kLogits, c.logits) |
         field(Form::kValues, c.wants_values ? DType::kF32 : DType::kNone);
}

ProblemClass generic_class_of(const ProblemClass& c) {
  ProblemClass g;
  g.op = c.op;
  g.a = c.a;
  g.b = c.b;
  g.trans_b = is_blocks(c.b);  // blocks lie along K
  // The kernel is generated for the widest output dtype. `form` gives the actual one at launch.
  g.d = returns_indices(c.op) ? DType::kI64 : stores_exact_sums(c) ? DType::kI32 : DType::kF32;
  g.alignment = c.alignment == Alignment::kByte ? Alignment::kByte : Alignment::kElement;
  g.wants_values = returns_indices(c.op);
  g.logits = c.op == Op::kMatmulArgmax ? DType::kF32 : DType::kNone;
  g.generic = 1;
  if (has_row_lengths(c.op)) {
    g.row_lo = 1;
    g.row_hi = Bucket::kOpenEnd;
  }
  return g;
}

std::vector<ProblemClass> generic_classes(const Target& target) {
  std::vector<ProblemClass> classes;
  const auto add = [&](Op op, DType a, DType b, DType d) {
    ProblemClass c;
    c.op = op;
    c.a = a;
    c.b = b;
    c.d = d;
    classes.push_back(generic_class_of(c));
    if (target.backend == Backend::kCpu) return;
    c.alignment = Alignment::kByte;
    classes.push_back(generic_class_of(c));
  };
  for (const DTypeRow& x : kDTypes)
    if (kFloats.has(x.value)) add(Op::kArgmax, x.value, DType::kNone, DType::kI64);
  for (const Product& p : kProducts) {
    if (!meet(p.kernels, devices_of(target.backend))) continue;
    for (Op op : {Op::kMatmul, Op::kMatmulArgmax})
      if (p.ops.has(op) && has_generic_kernel(op, p.b)) add(op, p.a, p.b, DType::kF32);
    if (p.results.has(DType::kI32)) add(Op::kMatmul, p.a, p.b, DType::kI32);
  }
  return classes;
}

bool may_fall_back(const ProblemClass& c) {
  const bool scaled =
      c.scale_a != Scale::kNone || c.scale_b != Scale::kNone || c.zero_a != 0 || c.zero_b != Scale::kNone;
  if (has_program(c.op)) return false;  // each program needs its own kernel
  if (c.rows != Rows::kPlain) return false;
  return has_row_lengths(c.op) ||
         (c.determinism == Determinism::kFast && !scaled && c.packed_b == 0 && has_generic_kernel(c.op, c.b));
}

}  // namespace lathe
