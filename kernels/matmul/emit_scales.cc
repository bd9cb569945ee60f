#include "kernels/matmul/emit_scales.h"

#include <string>

#include "compiler/gpu_kernel.h"
#include "core/block_scaled.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// A field of the argument block that both operands have.
Value field(const Arguments& a, unsigned operand, const char* name) {
  return a.get((operand == 0 ? "scale_a_" : "scale_b_") + std::string(name));
}

ScalePlaces places_of(const Arguments& a, unsigned operand) {
  ScalePlaces s;
  s.line128 = field(a, operand, "line128");
  s.line32 = field(a, operand, "line32");
  s.line = field(a, operand, "line");
  s.block16 = field(a, operand, "block16");
  s.block4 = field(a, operand, "block4");
  s.block = field(a, operand, "block");
  return s;
}

// `number` as three digits, of which the lower two are less than `middle` and `low`, each times its step.
Value three_digits(Emit& e, Value number, int64_t middle, int64_t low, const Value (&steps)[3]) {
  Value upper = e.div(number, e.idx(low));
  Value sum = e.mul(e.div(upper, e.idx(middle)), steps[0]);
  sum = e.add(sum, e.mul(e.rem(upper, e.idx(middle)), steps[1]));
  return e.add(sum, e.mul(e.rem(number, e.idx(low)), steps[2]));
}
Value scale_of_line(Emit& e, const ScalePlaces& s, Value matrix, Value line) {
  return e.add(matrix, three_digits(e, line, 4, 32, {s.line128, s.line32, s.line}));
}

}  // namespace

Value ScalePlaces::of_line(Emit& e, Value i) const {
  if (list) return e.load(list, i);
  return scale_of_line(e, *this, matrix, e.add(first_line, line_step ? e.mul(i, line_step) : i));
}

Value ScalePlaces::at(Emit& e, DType blocks, Value first, Value k) const {
  Value number = e.div(e.add(first_k, k), e.idx(elements_of_scale(blocks)));
  Value at = e.add(first, three_digits(e, number, 4, 4, {block16, block4, block}));
  const int64_t in_block = block_elements(blocks) / elements_of_scale(blocks);
  return pointer_to(e, memory, e.mul(at, row_of(blocks).apart / in_block));
}

Value ScalePlaces::all_same(Emit& e, Value count) const {
  Value after_first = e.sub(count, e.idx(1));
  Value last = e.add(first_line, line_step ? e.mul(after_first, line_step) : after_first);
  Value in_group = e.equal(e.div(first_line, e.idx(kTallLines)), e.div(last, e.idx(kTallLines)));
  Value within = arith::OrIOp::create(e.b, e.loc, line32, line);
  return arith::AndIOp::create(e.b, e.loc, in_group, e.equal(within, e.idx(0)));
}

Value ScalePlaces::of_128(Emit& e, DType blocks) const {
  if (elements_of_scale(blocks) == 128) return e.constant(e.b.getI1Type(), 1);
  return e.equal(block, e.idx(0));
}

ScalePlaces scale_places(Emit& e, const GpuStep& step, const TileProgram& p, unsigned operand) {
  linalg::LinalgOp contraction = p.contraction;
  if (!has_scales_apart(p.views.find(contraction.getDpsInputs()[operand])->second.blocks)) return {};
  const Arguments& a = step.arguments();
  ScalePlaces s = places_of(a, operand);
  s.memory = memory_at(e, a.get(operand == 0 ? "scale_a" : "scale_b"), e.b.getI8Type());
  s.matrix = e.mul(p.batch, field(a, operand, "matrix"));
  s.first_k = p.depth0;
  if (operand == 0) {
    s.list = step.scales_of_rows();
    s.first_line = step.rows() ? e.add(p.row0, step.rows()->first) : p.row0;
  } else {
    s.line_step = a.get("scale_b_step");
    s.first_line = e.add(a.get("scale_b_first"), e.mul(p.column0, s.line_step));
  }
  return s;
}

Value scales_of_slot(Emit& e, const Arguments& a, Value outer, Value within) {
  return scale_of_line(e, places_of(a, 0), e.mul(within, field(a, 0, "matrix")), outer);
}

Arguments with_scale_factors(Emit& e, GpuKernel& kernel, const GpuStep& step, Value group) {
  kernel.wait_for_earlier_kernel();  // which may write the factors
  const Arguments& a = step.arguments();
  Value one = e.constant_f32(1);
  const auto factor = [&](const char* name, Value at) {
    Type i64 = e.b.getI64Type();
    Value address = LLVM::PtrToIntOp::create(e.b, e.loc, i64, a.get(name));
    Value exists = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ne, address, e.constant(i64, 0));
    return e.choose(
        exists, {one}, [&] { return Values{e.load(memory_at(e, a.get(name), e.f32()), at)}; },
        [&] { return Values{one}; })[0];
  };
  Value both = arith::MulFOp::create(e.b, e.loc, factor("zero_a", e.idx(0)), factor("zero_b", group));
  return a.with("alpha", arith::MulFOp::create(e.b, e.loc, a.get("alpha"), both));
}

}  // namespace lathe::emit
