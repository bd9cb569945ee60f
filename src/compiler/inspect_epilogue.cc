// Reads an elementwise op after a product as parts of the epilogue, from the result back to the product.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/inspect_steps.h"

namespace lathe::payload {
namespace {
using namespace mlir;

template <typename OpType>
OpType made_by(Value v) {
  return v.getDefiningOp<OpType>();
}
bool is_number(Value v, double number) {
  const std::optional<double> c = constant_of(v);
  return c && std::fabs(*c - number) <= 1e-6 * std::fabs(number);
}
bool is_exactly(Value v, double number) {
  const std::optional<double> c = constant_of(v);
  return c && *c == number;
}

// The other operand of a commutative op that has `known` as an operand, otherwise null.
template <typename OpType>
Value other_than(OpType op, Value known) {
  if (op.getLhs() == known) return op.getRhs();
  return op.getRhs() == known ? op.getLhs() : Value();
}
// The other operand of a commutative op that has the constant `number` as an operand, otherwise null.
template <typename OpType>
Value beside_number(Value v, double number) {
  auto op = made_by<OpType>(v);
  if (!op) return {};
  if (is_number(op.getRhs(), number)) return op.getLhs();
  return is_number(op.getLhs(), number) ? op.getRhs() : Value();
}

// Returns x if `v` is max(x, 0) that propagates NaN, otherwise null.
Value relu_of(Value v) {
  if (auto max = made_by<arith::MaximumFOp>(v)) {
    if (is_exactly(max.getRhs(), 0)) return max.getLhs();
    return is_exactly(max.getLhs(), 0) ? max.getRhs() : Value();
  }
  auto select = made_by<arith::SelectOp>(v);
  auto compare = select ? made_by<arith::CmpFOp>(select.getCondition()) : arith::CmpFOp();
  const bool kept = compare && compare.getPredicate() == arith::CmpFPredicate::UGT &&
                    compare.getLhs() == select.getTrueValue() && is_exactly(compare.getRhs(), 0) &&
                    is_exactly(select.getFalseValue(), 0);
  return kept ? select.getTrueValue() : Value();
}

// Returns x if `v` is 1 + exp(-x), otherwise null.
Value one_and_exp_of(Value v) {
  const Value exp = beside_number<arith::AddFOp>(v, 1);
  auto power = exp ? made_by<math::ExpOp>(exp) : math::ExpOp();
  auto negated = power ? made_by<arith::NegFOp>(power.getOperand()) : arith::NegFOp();
  return negated ? negated.getOperand() : Value();
}

// Returns x if `v` is x / (1 + exp(-x)) or x * (1 / (1 + exp(-x))), otherwise null.
Value silu_of(Value v) {
  if (auto divided = made_by<arith::DivFOp>(v))
    return one_and_exp_of(divided.getRhs()) == divided.getLhs() ? divided.getLhs() : Value();
  auto times = made_by<arith::MulFOp>(v);
  if (!times) return {};
  for (const auto& [x, sigmoid] :
       {std::pair(times.getLhs(), times.getRhs()), std::pair(times.getRhs(), times.getLhs())}) {
    auto divided = made_by<arith::DivFOp>(sigmoid);
    if (divided && is_number(divided.getLhs(), 1) && one_and_exp_of(divided.getRhs()) == x) return x;
  }
  return {};
}

// The factors of nested products, in any order. Stops after kMostFactors + 1 of them, because shared operands
// could double their number at every level.
constexpr size_t kMostFactors = 4;
void add_factors(Value v, SmallVectorImpl<Value>* all) {
  if (all->size() > kMostFactors) return;
  auto times = made_by<arith::MulFOp>(v);
  if (!times) return all->push_back(v);
  add_factors(times.getLhs(), all);
  add_factors(times.getRhs(), all);
}
SmallVector<Value> factors_of(Value v) {
  SmallVector<Value> all;
  add_factors(v, &all);
  return all;
}

// Whether `v` is sqrt(2/pi) * (x + 0.044715 * x^3).
bool is_tanh_argument(Value v, Value x) {
  const Value inner = beside_number<arith::MulFOp>(v, 0.79788456080286536);
  auto sum = inner ? made_by<arith::AddFOp>(inner) : arith::AddFOp();
  const Value cubic = sum ? other_than(sum, x) : Value();
  if (!cubic) return false;
  int xs = 0, numbers = 0;
  for (Value factor : factors_of(cubic)) {
    xs += factor == x;
    numbers += is_number(factor, 0.044715);
  }
  return xs == 3 && numbers == 1 && factors_of(cubic).size() == 4;
}

// Returns x if `v` is 0.5 * x * (1 + f(x)), otherwise null. f(x) is erf(x / sqrt(2)) or the tanh of
// is_tanh_argument.
Value gelu_of(Value v, Activation* which) {
  const SmallVector<Value> factors = factors_of(v);
  if (factors.size() != 3) return {};
  Value x, bracket;
  bool half = false;
  for (Value factor : factors) {
    if (!half && is_number(factor, 0.5)) {
      half = true;
    } else if (!bracket && beside_number<arith::AddFOp>(factor, 1)) {
      bracket = beside_number<arith::AddFOp>(factor, 1);
    } else {
      x = factor;
    }
  }
  if (!half || !bracket || !x) return {};
  if (auto erf = made_by<math::ErfOp>(bracket)) {
    *which = Activation::kGelu;
    auto divided = made_by<arith::DivFOp>(erf.getOperand());
    const bool scaled = beside_number<arith::MulFOp>(erf.getOperand(), 0.70710678118654752) == x ||
                        (divided && divided.getLhs() == x && is_number(divided.getRhs(), 1.4142135623730951));
    return scaled ? x : Value();
  }
  auto tanh = made_by<math::TanhOp>(bracket);
  *which = Activation::kGeluTanh;
  return tanh && is_tanh_argument(tanh.getOperand(), x) ? x : Value();
}

class EpilogueReader {
 public:
  EpilogueReader(linalg::LinalgOp op, Value product, Step* step) : op_(op), product_(product), step_(step) {
    const std::string& dims = step->d.dims;
    letters_.assign(dims.begin(), dims.end());
  }

  Reason read() {
    for (OpOperand* operand : op_.getDpsInputOperands())
      if (operand->get() == product_ && !op_.getMatchingIndexingMap(operand).isIdentity())
        return "the product is permuted";
    if (!op_.getMatchingIndexingMap(op_.getDpsInitOperand(0)).isIdentity()) return "its result is permuted";
    Block& body = op_->getRegion(0).front();
    if (body.getTerminator()->getNumOperands() != 1) return "it has several results";
    if (dtype_of(getElementTypeOrSelf(op_->getResult(0).getType())) == DType::kNone)
      return "its result has an element type that Lathe does not support";
    Reason why = read_value(body.getTerminator()->getOperand(0));
    if (why.empty()) step_->d.tensor = op_->getResult(0);
    return why;
  }

 private:
  // The operand whose elements the body reads as `scalar`, ignoring widening casts. Null if there is none.
  OpOperand* operand_of(Value scalar) {
    while (auto wide = made_by<arith::ExtFOp>(scalar)) scalar = wide.getOperand();
    auto argument = dyn_cast<BlockArgument>(scalar);
    if (!argument || argument.getOwner() != op_.getBlock()) return nullptr;
    return &op_->getOpOperand(argument.getArgNumber());
  }

  unsigned result_bits() { return getElementTypeOrSelf(op_->getResult(0).getType()).getIntOrFloatBitWidth(); }

  // Reads the ops that compute `v`, starting from the product.
  Reason read_value(Value v) {
    if (auto cast = v.getDefiningOp();
        isa_and_nonnull<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp>(cast)) {
      if (isa<arith::TruncFOp>(cast) && v.getType().getIntOrFloatBitWidth() < result_bits())
        return "it rounds to fewer bits than its result has, which an epilogue does not";
      return read_value(cast->getOperand(0));
    }
    if (OpOperand* operand = operand_of(v))
      return operand->get() == product_ ? "" : "it does not start from the product";
    if (Value x = relu_of(v)) return read_activation(x, Activation::kRelu);
    if (Value x = silu_of(v)) return read_activation(x, Activation::kSilu);
    Activation gelu = Activation::kNone;
    if (Value x = gelu_of(v, &gelu)) return read_activation(x, gelu);
    if (auto sum = made_by<arith::AddFOp>(v)) return read_sum(sum);
    if (auto times = made_by<arith::MulFOp>(v)) return read_scale(times);
    Operation* op = v.getDefiningOp();
    return absl::StrCat(op ? op->getName().getStringRef().str() : "a value from outside the body",
                        " cannot be part of an epilogue");
  }

  Reason read_activation(Value x, Activation activation) {
    if (Reason why = read_value(x); !why.empty()) return why;
    if (step_->activation != Activation::kNone) return "a second activation";
    if (step_->residual.tensor) return "an activation after the residual";
    step_->activation = activation;
    return "";
  }

  Reason read_scale(arith::MulFOp times) {
    const bool right = constant_of(times.getRhs()).has_value();
    const std::optional<double> factor = constant_of(right ? times.getRhs() : times.getLhs());
    if (!factor) return "an epilogue cannot multiply by a value that is not a constant";
    if (Reason why = read_value(right ? times.getLhs() : times.getRhs()); !why.empty()) return why;
    if (step_->c.tensor || step_->bias.tensor || step_->residual.tensor ||
        step_->activation != Activation::kNone)
      return "an epilogue cannot multiply after an addition or an activation";
    step_->alpha *= *factor;
    return "";
  }

  Reason read_sum(arith::AddFOp sum) {
    // One side is the addend, an operand of the op. The other side starts from the product.
    OpOperand* addend = operand_of(sum.getRhs());
    const bool right = addend && addend->get() != product_;
    if (!right) addend = operand_of(sum.getLhs());
    if (!addend || addend->get() == product_) return "an epilogue can add only a tensor";
    if (Reason why = read_value(right ? sum.getLhs() : sum.getRhs()); !why.empty()) return why;
    const AffineMap map = op_.getMatchingIndexingMap(addend);
    SmallVector<unsigned> places;
    for (AffineExpr e : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(e)) places.push_back(dim.getPosition());
    if (!llvm::is_sorted(places)) return "an epilogue cannot add a permuted tensor";
    return read_addend(repeated_by({addend->get(), letters_of(map, letters_)}));
  }

  // Replaces a broadcast tensor by its source.
  static Access repeated_by(Access access) {
    auto broadcast = access.tensor.getDefiningOp<linalg::BroadcastOp>();
    if (!broadcast || access.dims.empty()) return access;
    std::string dims;
    for (auto [i, letter] : llvm::enumerate(access.dims))
      if (!llvm::is_contained(broadcast.getDimensions(), static_cast<int64_t>(i))) dims += letter;
    return {broadcast.getInput(), dims};
  }

  Reason read_addend(const Access& addend) {
    if (dtype_of(getElementTypeOrSelf(addend.tensor.getType())) == DType::kNone)
      return "an addend has an element type that Lathe does not support";
    const bool activated = step_->activation != Activation::kNone;
    std::string columns = step_->d.dims;
    llvm::erase_if(columns, [](char c) { return c != 'n'; });
    if (!columns.empty() && addend.dims == columns) {
      if (step_->bias.tensor || activated || step_->residual.tensor)
        return "a bias after the bias or the activation";
      step_->bias = addend;
      return "";
    }
    const bool whole = addend.dims == step_->d.dims || "b" + addend.dims == step_->d.dims;
    if (!whole)
      return absl::StrCat("an epilogue cannot add a tensor with the dimensions '", addend.dims, "'");
    Access& place = !activated && !step_->c.tensor && !step_->residual.tensor ? step_->c : step_->residual;
    if (place.tensor) return "a second tensor is added";
    place = addend;
    return "";
  }

  linalg::LinalgOp op_;
  Value product_;
  Step* step_;
  SmallVector<char> letters_;
};

}  // namespace

Reason read_epilogue(linalg::LinalgOp op, Value product, Step* step) {
  Step read = *step;
  Reason why = EpilogueReader(op, product, &read).read();
  if (why.empty()) *step = read;
  return why;
}

}  // namespace lathe::payload
