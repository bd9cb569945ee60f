#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/inspect_steps.h"

namespace lathe::payload {
namespace {
using namespace mlir;

// The operand of arith.extf, or `v` itself.
Value narrow(Value v) {
  auto wide = v.getDefiningOp<arith::ExtFOp>();
  return wide ? wide.getIn() : v;
}
Value uncast(Value v) {
  auto cast = v.getDefiningOp<arith::IndexCastOp>();
  return cast ? cast.getIn() : v;
}

// The values in the body of the reduction, which keeps the greater element and its index.
struct Body {
  Value in, best, at;  // block arguments: the element, the maximum so far, the index of the maximum
  Value column;        // the index of the element
};

// The possible relations of an element to the maximum so far. `first` marks the first element of the row, which
// is compared with -inf and has the initial index 0.
enum class Order { kLess, kEqual, kGreater, kIsNan, kAfterNan, kBothNan };
struct Case {
  Order order;
  bool first;
};
constexpr Case kCases[] = {{Order::kLess, false},     {Order::kEqual, false},   {Order::kGreater, false},
                           {Order::kEqual, true},     {Order::kGreater, true},  {Order::kIsNan, false},
                           {Order::kAfterNan, false}, {Order::kBothNan, false}, {Order::kIsNan, true}};

// The possible outcomes of comparing two floats, as a bit set for which a predicate is true.
enum Outcome : unsigned { kEqual = 1, kGreater = 2, kLess = 4, kUnordered = 8 };
unsigned outcomes_of(arith::CmpFPredicate predicate) {
  using Predicate = arith::CmpFPredicate;
  switch (predicate) {
    case Predicate::AlwaysFalse: return 0;
    case Predicate::OEQ: return kEqual;
    case Predicate::OGT: return kGreater;
    case Predicate::OGE: return kGreater | kEqual;
    case Predicate::OLT: return kLess;
    case Predicate::OLE: return kLess | kEqual;
    case Predicate::ONE: return kLess | kGreater;
    case Predicate::ORD: return kLess | kGreater | kEqual;
    case Predicate::UEQ: return kUnordered | kEqual;
    case Predicate::UGT: return kUnordered | kGreater;
    case Predicate::UGE: return kUnordered | kGreater | kEqual;
    case Predicate::ULT: return kUnordered | kLess;
    case Predicate::ULE: return kUnordered | kLess | kEqual;
    case Predicate::UNE: return kUnordered | kLess | kGreater;
    case Predicate::UNO: return kUnordered;
    case Predicate::AlwaysTrue: return kUnordered | kLess | kGreater | kEqual;
  }
  return 0;
}

// Evaluates a condition of the body in a given case, whatever form it is written in. The result is nullopt if
// the condition uses anything other than comparisons of the four values of Body.
class Condition {
 public:
  explicit Condition(const Body& body) : body_(body) {}

  std::optional<bool> holds(Value v, const Case& c) {
    if (--budget_ < 0) return std::nullopt;
    APInt constant;
    if (matchPattern(v, m_ConstantInt(&constant))) return !constant.isZero();
    if (auto both = v.getDefiningOp<arith::AndIOp>())
      return joined(both.getLhs(), both.getRhs(), c, [](bool x, bool y) { return x && y; });
    if (auto either = v.getDefiningOp<arith::OrIOp>())
      return joined(either.getLhs(), either.getRhs(), c, [](bool x, bool y) { return x || y; });
    if (auto compare = v.getDefiningOp<arith::CmpFOp>()) return holds(compare, c);
    if (auto compare = v.getDefiningOp<arith::CmpIOp>()) return holds(compare, c);
    return std::nullopt;
  }
  // Whether a comparison has the flag nnan, which states that there are no NaNs.
  bool has_no_nans() const { return has_no_nans_; }

 private:
  template <typename F>
  std::optional<bool> joined(Value x, Value y, const Case& c, F f) {
    const std::optional<bool> left = holds(x, c), right = holds(y, c);
    return left && right ? std::optional<bool>(f(*left, *right)) : std::nullopt;
  }

  std::optional<bool> holds(arith::CmpFOp compare, const Case& c) {
    const Value x = narrow(compare.getLhs()), y = narrow(compare.getRhs());
    const auto known = [&](Value v) { return v == body_.in || v == body_.best; };
    if (!known(x) || !known(y)) return std::nullopt;
    has_no_nans_ |= arith::bitEnumContainsAny(compare.getFastmath(), arith::FastMathFlags::nnan);
    const auto is_nan = [&](Value v) {
      return c.order == Order::kBothNan || c.order == (v == body_.in ? Order::kIsNan : Order::kAfterNan);
    };
    unsigned outcome = kEqual;
    if (is_nan(x) || is_nan(y)) {
      outcome = kUnordered;
    } else if (x != y && c.order != Order::kEqual) {
      outcome = (x == body_.in) == (c.order == Order::kGreater) ? kGreater : kLess;
    }
    return (outcomes_of(compare.getPredicate()) & outcome) != 0;
  }

  // Columns come in ascending order, so the column of the element is greater than that of the maximum.
  std::optional<bool> holds(arith::CmpIOp compare, const Case& c) {
    using Predicate = arith::CmpIPredicate;
    const bool right = uncast(compare.getLhs()) == uncast(body_.column) && compare.getRhs() == body_.at;
    const bool left = uncast(compare.getRhs()) == uncast(body_.column) && compare.getLhs() == body_.at;
    if (!left && !right) return std::nullopt;
    switch (compare.getPredicate()) {
      case Predicate::eq: return c.first;
      case Predicate::ne: return !c.first;
      case Predicate::sle:
      case Predicate::ule: return c.first || left;
      case Predicate::sge:
      case Predicate::uge: return c.first || right;
      case Predicate::slt:
      case Predicate::ult: return !c.first && left;
      case Predicate::sgt:
      case Predicate::ugt: return !c.first && right;
    }
    return std::nullopt;
  }

  const Body& body_;
  int budget_ = 1000;  // limits the visits, which can grow exponentially if conditions share operands
  bool has_no_nans_ = false;
};

// Whether the yielded value is `taken` (the new one) rather than `kept` in this case.
std::optional<bool> takes(Value yielded, Value taken, Value kept, const Case& c, Condition* condition) {
  auto select = yielded.getDefiningOp<arith::SelectOp>();
  if (!select) return std::nullopt;
  const Value yes = narrow(select.getTrueValue()), no = narrow(select.getFalseValue());
  if (!(yes == taken && no == kept) && !(yes == kept && no == taken)) return std::nullopt;
  const std::optional<bool> holds = condition->holds(select.getCondition(), c);
  return holds ? std::optional<bool>(*holds == (yes == taken)) : std::nullopt;
}

// Checks that the body follows Lathe's rule: the first of equal maxima wins, and the first NaN wins over
// everything. With nnan the treatment of NaNs does not matter.
Reason check_rule(Value value, Value index, const Body& body) {
  Condition condition(body);
  auto max = value.getDefiningOp<arith::MaximumFOp>();
  const bool is_max = max && ((narrow(max.getLhs()) == body.in && max.getRhs() == body.best) ||
                              (narrow(max.getRhs()) == body.in && max.getLhs() == body.best));
  bool nan_wins = true;
  for (const Case& c : kCases) {
    const bool wanted = c.order == Order::kGreater || c.order == Order::kIsNan;
    const bool either = c.order == Order::kEqual || c.order == Order::kBothNan;  // both values are the same
    const std::optional<bool> new_value = is_max ? wanted : takes(value, body.in, body.best, c, &condition);
    if (!new_value) return "its maximum is not selected by a comparison of elements";
    const std::optional<bool> new_index = takes(index, body.column, body.at, c, &condition);
    if (!new_index) return "its index is not selected by a comparison of elements";
    if ((either || *new_value == wanted) && (c.first || *new_index == wanted)) continue;
    if (c.order < Order::kIsNan) return "it does not keep the first of equal maxima";
    nan_wins = false;
  }
  if (nan_wins || condition.has_no_nans()) return "";
  return "the first NaN does not win, as it does in Lathe's argmax: use fastmath<nnan> if there are no NaNs";
}

// If `column` is the index of a loop plus a constant, returns the loop and sets *offset to the constant.
std::optional<unsigned> loop_counted(Value column, int64_t* offset) {
  column = uncast(column);
  if (auto sum = column.getDefiningOp<arith::AddIOp>()) {
    APInt constant;
    if (!matchPattern(sum.getRhs(), m_ConstantInt(&constant))) return std::nullopt;
    *offset = constant.getSExtValue();
    column = uncast(sum.getLhs());
  }
  auto index = column.getDefiningOp<linalg::IndexOp>();
  return index ? std::optional<unsigned>(index.getDim()) : std::nullopt;
}

unsigned reduced_loop(linalg::LinalgOp op) {
  unsigned loop = 0;
  while (op.getIteratorTypesArray()[loop] != utils::IteratorType::reduction) ++loop;
  return loop;
}

Reason check_maps(linalg::LinalgOp op, std::string* dims) {
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const unsigned loops = op.getNumLoops();
  if (!maps[0].isIdentity()) return "its input is permuted";
  if (op.getNumReductionLoops() != 1) return "it reduces several dimensions";
  dims->assign(loops, 'r');
  const unsigned reduced = reduced_loop(op);
  (*dims)[reduced] = 'n';
  const AffineMap rows = AffineMap::getMultiDimIdentityMap(loops, op.getContext()).dropResult(reduced);
  for (const AffineMap& map : ArrayRef<AffineMap>(maps).drop_front(op.getNumDpsInputs()))
    if (map != rows) return "its results are permuted";
  return "";
}

// Whether the second input contains the index of each element along the reduced loop.
bool is_column_of(linalg::LinalgOp op, OpOperand* columns) {
  int64_t offset = 0;
  const std::optional<unsigned> dimension = dimension_counted(columns->get(), &offset);
  return dimension && offset == 0 &&
         op.getMatchingIndexingMap(columns).getResult(*dimension) ==
             getAffineDimExpr(reduced_loop(op), op.getContext());
}

Reason read_column(linalg::LinalgOp op, const Body& body, int64_t* offset) {
  if (op.getNumDpsInputs() == 2 && body.column == op.getBlock()->getArgument(1))
    return is_column_of(op, op.getDpsInputOperand(1))
               ? ""
               : "its second input is not the index along the reduced dimension";
  const std::optional<unsigned> loop = loop_counted(body.column, offset);
  if (!loop) return "its index is not a loop index plus a constant";
  return *loop == reduced_loop(op) ? "" : "its index is not along the reduced dimension";
}

}  // namespace

bool is_argmax(linalg::LinalgOp op) {
  return op.getNumReductionLoops() > 0 && op->getNumResults() == 2 &&
         isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())) &&
         getElementTypeOrSelf(op->getResult(1).getType()).isIntOrIndex();
}

std::optional<unsigned> dimension_counted(Value tensor, int64_t* offset) {
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || op.getNumDpsInputs() != 0 || op->getNumResults() != 1 || op.getNumReductionLoops() != 0 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return std::nullopt;
  return loop_counted(op.getBody()->getTerminator()->getOperand(0), offset);
}

Reason read_argmax(linalg::LinalgOp op, Step* step) {
  const int64_t inputs = op.getNumDpsInputs();
  if (inputs != 1 && inputs != 2) return "its inputs are not the elements, or the elements and their columns";
  std::string dims;
  if (Reason why = check_maps(op, &dims); !why.empty()) return why;
  if (!is_filled(op.getDpsInits()[0], -INFINITY)) return "its maximum does not start from -inf";
  if (!is_filled(op.getDpsInits()[1], 0)) return "its index does not start from 0";
  Block* block = op.getBlock();
  Operation* yield = block->getTerminator();
  Body body{block->getArgument(0), block->getArgument(inputs), block->getArgument(inputs + 1), {}};
  auto index = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  if (!index || (index.getFalseValue() != body.at && index.getTrueValue() != body.at))
    return "its index is not selected";
  body.column = index.getFalseValue() == body.at ? index.getTrueValue() : index.getFalseValue();
  if (Reason why = check_rule(yield->getOperand(0), index, body); !why.empty()) return why;
  step->op = Op::kArgmax;
  if (Reason why = read_column(op, body, &step->index_offset); !why.empty()) return why;
  step->a = {op.getDpsInputs()[0], dims};
  dims.erase(dims.find('n'), 1);
  if (!op->getResult(0).use_empty()) step->values = {op->getResult(0), dims};
  step->indices = {op->getResult(1), dims};
  if (!is_float(dtype_of(getElementTypeOrSelf(step->a.tensor.getType()))))
    return "its elements are not f32, f16 or bf16";
  if (step->values.tensor && dtype_of(getElementTypeOrSelf(step->values.tensor.getType())) != DType::kF32)
    return "its maxima are not f32";
  const DType indices = dtype_of(getElementTypeOrSelf(step->indices.tensor.getType()));
  if (indices != DType::kI32 && indices != DType::kI64) return "its indices are not i32 or i64";
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
