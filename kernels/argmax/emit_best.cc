#include "kernels/argmax/emit_best.h"

#include "compiler/open_view.h"

namespace lathe::emit {
using namespace mlir;

namespace {
Value compare(Emit& e, arith::CmpFPredicate p, Value x, Value y) {
  return arith::CmpFOp::create(e.b, e.loc, p, x, y);
}
Value both(Emit& e, Value x, Value y) { return arith::AndIOp::create(e.b, e.loc, x, y); }
Value either(Emit& e, Value x, Value y) { return arith::OrIOp::create(e.b, e.loc, x, y); }
Best select(Emit& e, Value take, const Best& x, const Best& y) {
  return {arith::SelectOp::create(e.b, e.loc, take, x.value, y.value),
          arith::SelectOp::create(e.b, e.loc, take, x.column, y.column)};
}
}  // namespace

Value rises(Emit& e, Value x, Value best) {
  return both(e, compare(e, arith::CmpFPredicate::UGT, x, best),
              compare(e, arith::CmpFPredicate::ORD, best, best));
}

Best better(Emit& e, const Best& a, const Best& b) {
  Value a_nan = compare(e, arith::CmpFPredicate::UNO, a.value, a.value);
  Value b_nan = compare(e, arith::CmpFPredicate::UNO, b.value, b.value);
  Value same = either(e, compare(e, arith::CmpFPredicate::OEQ, a.value, b.value), both(e, a_nan, b_nan));
  Value lower = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult, b.column, a.column);
  return select(e, either(e, rises(e, b.value, a.value), both(e, same, lower)), b, a);
}

Best keep_better(Emit& e, const Best& best, const Best& next) {
  return select(e, rises(e, next.value, best.value), next, best);
}

void store_best(Emit& e, const TileProgram& p, Value row, const Best& best, Value offset) {
  for (Value result : p.argmax->getResults()) {
    auto found = p.views.find(result);
    if (found == p.views.end()) continue;
    const View& v = found->second;
    Value out = best.value;
    if (!isa<FloatType>(v.element)) {
      Value column = arith::IndexCastUIOp::create(e.b, e.loc, e.index(), best.column);
      out = arith::IndexCastOp::create(e.b, e.loc, v.element, e.add(column, offset));
    }
    Value at = e.add(v.offset, row);
    if (v.dtype)
      store_open(e, out, v, at);
    else
      e.store(out, v.memory, at, v.alignment);
  }
}

}  // namespace lathe::emit
