#include "kernels/elementwise/emit_program.h"

namespace lathe::emit {
namespace {
using namespace mlir;

bool is_half(Type element) { return element.isF16() || element.isBF16(); }

// One evaluation of the body. Values of f16 and bf16 are held as f32, with values that their type can represent.
class Body {
 public:
  Body(Emit& e, const TileProgram& p, Value row, Value column, int64_t lanes)
      : e_(e), p_(p), row_(row), column_(column), lanes_(lanes) {}

  Value run(ArrayRef<Value> inputs) {
    linalg::GenericOp op = p_.epilogue;
    Block& body = *op.getBody();
    for (auto [argument, value] : llvm::zip(body.getArguments(), inputs))
      values_.map(argument, is_half(argument.getType()) ? e_.to_f32(value) : value);
    for (Operation& inner : body.without_terminator()) values_.map(inner.getResult(0), emit(inner));
    const Value yielded = body.getTerminator()->getOperand(0);
    Value result = use(yielded);
    return is_half(yielded.getType()) ? e_.from_f32(result, yielded.getType()) : result;
  }

 private:
  // The type in which a value of the body is held.
  Type kept(Type element) const {
    if (is_half(element)) element = e_.f32();
    return lanes_ == 0 ? element : Type(e_.vec(lanes_, element));
  }
  Value spread(Value scalar) const { return lanes_ == 0 ? scalar : e_.broadcast(scalar, lanes_); }

  // Also for values from outside the body, such as the position of the tile.
  Value use(Value v) {
    if (Value known = values_.lookupOrNull(v)) return known;
    Value made = spread(p_.mapping.lookup(v));
    values_.map(v, made);
    return made;
  }

  Value emit(Operation& op) {
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) return emit_constant(constant);
    if (auto index = dyn_cast<linalg::IndexOp>(op)) return emit_index(index.getDim());
    const Type type = op.getResult(0).getType();
    if (isa<arith::ExtFOp>(op)) return use(op.getOperand(0));
    if (isa<arith::TruncFOp>(op)) return rounded(use(op.getOperand(0)), type);
    OperationState state(e_.loc, op.getName(), {}, {kept(type)}, op.getAttrs());
    for (Value operand : op.getOperands()) state.operands.push_back(use(operand));
    Value result = e_.b.create(state)->getResult(0);
    const bool inexact = isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::SIToFPOp,
                             math::ExpOp, math::ErfOp, math::TanhOp, math::SqrtOp>(op);
    return inexact ? rounded(result, type) : result;
  }
  // Rounding to f32 first and then to f16 or bf16 gives the same result as rounding once, because f32's 24 bits of
  // precision are at least 2 p + 2 (f16: p = 11, bf16: p = 8).
  Value rounded(Value x, Type element) const {
    return is_half(element) ? e_.to_f32(e_.from_f32(x, element)) : x;
  }

  Value emit_constant(arith::ConstantOp op) const {
    Value scalar = e_.b.clone(*op)->getResult(0);
    return spread(is_half(op.getType()) ? e_.to_f32(scalar) : scalar);
  }
  // The index of the element in its tile; the program adds the position of the tile.
  Value emit_index(uint64_t loop) const {
    if (loop == 0) return spread(e_.idx(0));
    if (loop == 1) return spread(row_);
    if (lanes_ == 0) return column_;
    SmallVector<Attribute> places;
    for (int64_t l = 0; l < lanes_; ++l) places.push_back(e_.b.getIndexAttr(l));
    VectorType type = e_.vec(lanes_, e_.index());
    Value lanes = arith::ConstantOp::create(e_.b, e_.loc, DenseElementsAttr::get(type, places));
    return arith::AddIOp::create(e_.b, e_.loc, spread(column_), lanes);
  }

  Emit& e_;
  const TileProgram& p_;
  Value row_, column_;
  int64_t lanes_;
  IRMapping values_;
};

}  // namespace

Value ElementwiseAccess::at(Emit& e, Value row, Value column) const {
  switch (kind) {
    case kAlongN: return e.add(e.add(view.offset, e.mul(row, view.row_stride)), column);
    case kAlongM: return e.add(e.add(view.offset, e.mul(column, view.row_stride)), row);
    case kPerRow: break;
  }
  return e.add(view.offset, e.mul(row, view.row_stride));
}

llvm::FailureOr<SmallVector<ElementwiseAccess>> elementwise_accesses(const TileProgram& p) {
  linalg::GenericOp op = p.epilogue;
  SmallVector<ElementwiseAccess> accesses;
  for (OpOperand* input : op.getDpsInputOperands()) {
    const auto view = p.views.find(input->get());
    if (view == p.views.end()) return op.emitError("an input is not a slice of an operand");
    AffineMap map = op.getMatchingIndexingMap(input);
    const auto along = dyn_cast<AffineDimExpr>(map.getResults().back());
    ElementwiseAccess access;
    access.view = view->second;
    // The innermost dimension that a loop runs along. A dimension of extent 1 has no loop.
    const bool turned = map.getNumResults() == 3 && along && along.getPosition() == 1;
    access.kind = turned  ? ElementwiseAccess::kAlongM
                  : along ? ElementwiseAccess::kAlongN
                          : ElementwiseAccess::kPerRow;
    accesses.push_back(access);
  }
  return accesses;
}

Value elementwise_result(Emit& e, const TileProgram& p, ArrayRef<Value> inputs, Value row, Value column,
                         int64_t lanes) {
  return Body(e, p, row, column, lanes).run(inputs);
}

}  // namespace lathe::emit
