#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/inspect_steps.h"

namespace lathe::payload {
namespace {
using namespace mlir;

// The reduction's body: keep the greater value and where it was.
struct Body {
  Value in, best, at;   // block arguments: the element, the maximum so far, its index
  Value value, column;  // what becomes of the maximum; the present element's column
};

bool is_compare(Value v, arith::CmpFPredicate predicate, Value x, Value y) {
  auto compare = v.getDefiningOp<arith::CmpFOp>();
  return compare && compare.getPredicate() == predicate && compare.getLhs() == x && compare.getRhs() == y;
}
bool has_no_nans(Value compare) {
  auto op = compare.getDefiningOp<arith::CmpFOp>();
  return op && arith::bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::nnan);
}

// Whether `take` says that the element replaces the maximum by Lathe's rule: the first of equals, and the
// first NaN over everything. A plain > is the same where the payload promises that there is no NaN.
Reason check_rule(Value take, const Body& body) {
  if (auto both = take.getDefiningOp<arith::AndIOp>()) {
    for (const auto& [x, y] :
         {std::pair(both.getLhs(), both.getRhs()), std::pair(both.getRhs(), both.getLhs())})
      if (is_compare(x, arith::CmpFPredicate::UGT, body.in, body.best) &&
          is_compare(y, arith::CmpFPredicate::ORD, body.best, body.best))
        return "";
  }
  if (!is_compare(take, arith::CmpFPredicate::OGT, body.in, body.best))
    return "it keeps neither the first of the greatest elements";
  return has_no_nans(take)
             ? ""
             : "a NaN would never win here, and does in Lathe's argmax: fastmath<nnan> says there is none";
}

// The reduced loop's number plus a constant.
Reason read_column(Value column, unsigned reduced, int64_t* offset) {
  if (auto cast = column.getDefiningOp<arith::IndexCastOp>()) column = cast.getIn();
  if (auto sum = column.getDefiningOp<arith::AddIOp>()) {
    APInt constant;
    if (!matchPattern(sum.getRhs(), m_ConstantInt(&constant)))
      return "its index is no column plus a constant";
    *offset = constant.getSExtValue();
    column = sum.getLhs();
    if (auto cast = column.getDefiningOp<arith::IndexCastOp>()) column = cast.getIn();
  }
  auto index = column.getDefiningOp<linalg::IndexOp>();
  return index && index.getDim() == reduced ? "" : "its index is not the reduced dimension's";
}

unsigned reduced_loop(linalg::LinalgOp op) {
  unsigned loop = 0;
  while (op.getIteratorTypesArray()[loop] != utils::IteratorType::reduction) ++loop;
  return loop;
}

Reason check_maps(linalg::LinalgOp op, std::string* dims) {
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const unsigned loops = op.getNumLoops();
  if (!maps[0].isIdentity()) return "its input is not read as it lies";
  if (op.getNumReductionLoops() != 1) return "it reduces several dimensions";
  dims->assign(loops, 'r');
  const unsigned reduced = reduced_loop(op);
  (*dims)[reduced] = 'n';
  const AffineMap rows = AffineMap::getMultiDimIdentityMap(loops, op.getContext()).dropResult(reduced);
  for (const AffineMap& map : ArrayRef<AffineMap>(maps).drop_front())
    if (map != rows) return "its results are permuted";
  return "";
}

// The elements, through a widening.
Value narrow(Value v) {
  auto wide = v.getDefiningOp<arith::ExtFOp>();
  return wide ? wide.getIn() : v;
}

}  // namespace

bool is_argmax(linalg::LinalgOp op) {
  return op.getNumReductionLoops() > 0 && op->getNumResults() == 2 &&
         isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
         getElementTypeOrSelf(op->getResult(1).getType()).isIntOrIndex();
}

Reason read_argmax(linalg::LinalgOp op, Step* step) {
  if (op.getNumDpsInputs() != 1) return "it has more inputs than the elements";
  std::string dims;
  if (Reason why = check_maps(op, &dims); !why.empty()) return why;
  if (!is_filled(op.getDpsInits()[0], -INFINITY)) return "its maximum does not start from -inf";
  if (!is_filled(op.getDpsInits()[1], 0)) return "its index does not start from 0";
  Block* block = op.getBlock();
  Operation* yield = block->getTerminator();
  Body body{{}, block->getArgument(1), block->getArgument(2), yield->getOperand(0), {}};
  auto index = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  if (!index || index.getFalseValue() != body.at) return "its index is not kept or replaced";
  body.column = index.getTrueValue();
  if (auto kept = body.value.getDefiningOp<arith::SelectOp>()) {
    if (kept.getCondition() != index.getCondition() || kept.getFalseValue() != body.best)
      return "its maximum and its index are not replaced together";
    body.in = kept.getTrueValue();
  } else if (auto max = body.value.getDefiningOp<arith::MaximumFOp>()) {
    if (max.getLhs() != body.best && max.getRhs() != body.best) return "its maximum is not kept or replaced";
    body.in = max.getLhs() == body.best ? max.getRhs() : max.getLhs();
  } else {
    return "its maximum is not kept or replaced";
  }
  if (narrow(body.in) != block->getArgument(0)) return "it does not compare the elements themselves";
  if (Reason why = check_rule(index.getCondition(), body); !why.empty()) return why;
  step->op = Op::kArgmax;
  if (Reason why = read_column(body.column, reduced_loop(op), &step->index_offset); !why.empty()) return why;
  step->a = {op.getDpsInputs()[0], dims};
  dims.erase(dims.find('n'), 1);
  step->values = {op->getResult(0), dims};
  step->indices = {op->getResult(1), dims};
  if (!is_float(dtype_of(getElementTypeOrSelf(step->a.tensor.getType()))))
    return "its elements are no f32, f16 or bf16";
  if (dtype_of(getElementTypeOrSelf(step->values.tensor.getType())) != DType::kF32)
    return "its maxima are no f32";
  const DType indices = dtype_of(getElementTypeOrSelf(step->indices.tensor.getType()));
  if (indices != DType::kI32 && indices != DType::kI64) return "its indices are no i32 or i64";
  if (step->values.tensor.use_empty()) step->values = {};
  return "";
}

bool join_argmax(const Step& product, Step* argmax) {
  const bool plain = product.d.dims == "mn" && product.alpha == 1 && !product.c.tensor &&
                     !product.residual.tensor && product.activation == Activation::kNone &&
                     product.a.dims.size() == 2 && product.b.dims.size() == 2;
  const DType logits = dtype_of(getElementTypeOrSelf(product.d.tensor.getType()));
  if (!plain || !is_float(dtype_of(getElementTypeOrSelf(product.a.tensor.getType()))) ||
      (product.bias.tensor && dtype_of(getElementTypeOrSelf(product.bias.tensor.getType())) != logits))
    return false;
  argmax->op = Op::kMatmulArgmax;
  argmax->a = product.a;
  argmax->b = product.b;
  argmax->bias = product.bias;
  argmax->logits = logits;
  for (Access* access : {&argmax->indices, &argmax->values})
    if (access->tensor) access->dims = "m";
  return true;
}

}  // namespace lathe::payload
