#include "compiler/meaning.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {
using namespace mlir;

// The operations that the evaluator knows. To add one: a row here, a row in core/elementwise.cc, a case in
// reference/evaluate_scalar.cc.
constexpr llvm::StringLiteral kScalarOps[] = {
    "arith.addf",     "arith.subf",    "arith.mulf",    "arith.divf",   "arith.negf",       "arith.maximumf",
    "arith.minimumf", "arith.maxnumf", "arith.minnumf", "arith.addi",   "arith.subi",       "arith.muli",
    "arith.andi",     "arith.ori",     "arith.maxsi",   "arith.minsi",  "arith.extf",       "arith.truncf",
    "arith.extsi",    "arith.extui",   "arith.trunci",  "arith.sitofp", "arith.index_cast", "arith.select",
    "arith.cmpf",     "arith.cmpi",    "math.exp",      "math.erf",     "math.tanh",        "math.absf",
    "math.sqrt"};

constexpr unsigned kMostBits = 64;  // the widest integer

std::optional<Json> number_of(Attribute constant) {
  if (auto number = dyn_cast<FloatAttr>(constant)) {
    const double x = number.getValueAsDouble();
    // JSON has no infinities.
    if (std::isfinite(x)) return Json(x);
    return Json(std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
  }
  if (auto number = dyn_cast<IntegerAttr>(constant))
    if (number.getValue().getBitWidth() <= kMostBits) return Json(number.getValue().getSExtValue());
  return std::nullopt;
}

// Adds factor * e to the row [constant, coefficients...]. Returns false if the expression is not linear in the
// loops or if a number overflows int64_t.
bool add_linear(AffineExpr e, int64_t factor, std::vector<int64_t>* row) {
  const auto add = [&](size_t place, int64_t number) {
    return !llvm::MulOverflow(factor, number, number) &&
           !llvm::AddOverflow((*row)[place], number, (*row)[place]);
  };
  if (auto d = dyn_cast<AffineDimExpr>(e)) return add(1 + d.getPosition(), 1);
  if (auto c = dyn_cast<AffineConstantExpr>(e)) return add(0, c.getValue());
  auto binary = dyn_cast<AffineBinaryOpExpr>(e);
  if (!binary) return false;
  if (e.getKind() == AffineExprKind::Add)
    return add_linear(binary.getLHS(), factor, row) && add_linear(binary.getRHS(), factor, row);
  auto c = dyn_cast<AffineConstantExpr>(binary.getRHS());
  return e.getKind() == AffineExprKind::Mul && c && !llvm::MulOverflow(factor, c.getValue(), factor) &&
         add_linear(binary.getLHS(), factor, row);
}

Json shape_of(Value v) {
  Json shape = Json::array();
  for (int64_t extent : cast<RankedTensorType>(v.getType()).getShape())
    shape.push_back(ShapedType::isDynamic(extent) ? Json() : Json(extent));
  return shape;
}

// Translates the body of a linalg op to nodes.
class Body {
 public:
  explicit Body(linalg::LinalgOp op) : op_(op) {
    for (BlockArgument argument : op.getBlock()->getArguments()) nodes_.try_emplace(argument, count_++);
  }

  bool read(std::string* why) {
    for (Operation& op : op_.getBlock()->without_terminator())
      if (const Type wide = wide_integer(op)) {
        *why = absl::StrCat(op.getName().getStringRef().str(), " has type ", type_name(wide),
                            ", which is wider than ", kMostBits, " bits");
        return false;
      } else if (!node(op)) {
        *why =
            absl::StrCat(op.getName().getStringRef().str(), " is not an operation that Lathe can evaluate");
        return false;
      }
    for (Value v : op_.getBlock()->getTerminator()->getOperands()) {
      const std::optional<int64_t> n = find(v);
      if (!n) return *why = "it yields a value from outside its body that is not a constant", false;
      yield_.push_back(*n);
    }
    return true;
  }
  Json json = Json::array();
  const Json& yield() const { return yield_; }

 private:
  std::optional<int64_t> find(Value v) {
    const auto at = nodes_.find(v);
    if (at != nodes_.end()) return at->second;
    const std::optional<Json> number = number_in(v);
    if (!number) return std::nullopt;
    json.push_back({"number", type_name(v.getType()), *number});
    return nodes_.try_emplace(v, count_++).first->second;
  }

  // The type of an operand or result that is wider than kMostBits; null if there is none.
  static Type wide_integer(Operation& op) {
    for (const TypeRange types : {TypeRange(op.getOperandTypes()), TypeRange(op.getResultTypes())})
      for (Type type : types)
        if (type.isInteger() && type.getIntOrFloatBitWidth() > kMostBits) return type;
    return nullptr;
  }

  bool node(Operation& op) {
    if (op.getNumResults() != 1 || isa<ShapedType>(op.getResult(0).getType())) return false;
    if (isa<arith::ConstantOp>(op)) return find(op.getResult(0)).has_value();
    const std::string name = op.getName().getStringRef().str();
    Json made;
    if (auto index = dyn_cast<linalg::IndexOp>(op)) {
      made = {"index", "index", index.getDim()};
    } else {
      if (!llvm::is_contained(kScalarOps, name)) return false;
      made = {name, type_name(op.getResult(0).getType())};
      for (Value operand : op.getOperands()) {
        const std::optional<int64_t> n = find(operand);
        if (!n) return false;
        made.push_back(*n);
      }
      if (auto compare = dyn_cast<arith::CmpFOp>(op))
        made.push_back(arith::stringifyCmpFPredicate(compare.getPredicate()).str());
      if (auto compare = dyn_cast<arith::CmpIOp>(op))
        made.push_back(arith::stringifyCmpIPredicate(compare.getPredicate()).str());
      if (isa<arith::ExtUIOp, arith::IndexCastOp, arith::ExtSIOp, arith::SIToFPOp>(op))
        made.push_back(type_name(op.getOperand(0).getType()));
    }
    json.push_back(made);
    nodes_.try_emplace(op.getResult(0), count_++);
    return true;
  }

  linalg::LinalgOp op_;
  llvm::DenseMap<Value, int64_t> nodes_;
  int64_t count_ = 0;
  Json yield_ = Json::array();
};

// Translates ops that compute no element: empty tensors, casts, reshapes and splat constants.
std::optional<Json> plain(Operation& op, const llvm::DenseMap<Value, int64_t>& numbers) {
  if (isa<tensor::EmptyOp>(op)) return Json{{"empty", true}};
  if (isa<tensor::CastOp, tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
    return Json{{"same_as", numbers.lookup(op.getOperand(0))}};
  auto constant = dyn_cast<arith::ConstantOp>(op);
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat) return std::nullopt;
  const std::optional<Json> number = number_of(splat.getSplatValue<Attribute>());
  return number ? std::optional<Json>(Json{{"fill", *number}}) : std::nullopt;
}

}  // namespace

std::optional<Json> number_in(Value scalar) {
  auto constant = scalar.getDefiningOp<arith::ConstantOp>();
  return constant ? number_of(constant.getValue()) : std::nullopt;
}

std::string type_name(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  getElementTypeOrSelf(type).print(stream);
  return text;
}

std::string location_text(Location location) {
  std::string text;
  location->walk([&](Location l) {
    auto place = dyn_cast<FileLineColLoc>(l);
    if (!place) return WalkResult::advance();
    text = place.getFilename().str();  // the module that wraps a whole file has no line
    if (place.getLine() > 0) absl::StrAppend(&text, ":", place.getLine(), ":", place.getColumn());
    return WalkResult::interrupt();
  });
  return text;
}

llvm::DenseMap<Value, int64_t> numbered_values(func::FuncOp function) {
  llvm::DenseMap<Value, int64_t> numbers;
  int64_t next = 0;
  for (BlockArgument argument : function.getArguments()) numbers[argument] = next++;
  for (Operation& op : function.getBody().front())
    for (Value result : op.getResults())
      if (isa<RankedTensorType>(result.getType())) numbers[result] = next++;
  return numbers;
}

Json meaning_of(linalg::LinalgOp op, int64_t value, llvm::function_ref<int64_t(Value)> number_of,
                std::string* why) {
  Body body(op);
  if (!body.read(why)) return nullptr;
  Json json = {{"location", location_text(op.getLoc())},
               {"value", value},
               {"results", op->getNumResults()},
               {"inputs", op.getNumDpsInputs()}};
  for (Value result : op->getResults()) json["dtype"].push_back(type_name(result.getType()));
  for (utils::IteratorType type : op.getIteratorTypesArray())
    json["reduction"].push_back(type == utils::IteratorType::reduction);
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (OpOperand& operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType())) {
      const std::optional<Json> number = number_in(operand.get());
      if (!number) return *why = "an operand is a scalar that is not a constant", nullptr;
      json["operands"].push_back({{"number", *number}});
      continue;
    }
    Json map = Json::array();
    for (AffineExpr e : maps[operand.getOperandNumber()].getResults()) {
      std::vector<int64_t> row(1 + op.getNumLoops(), 0);
      if (!add_linear(e, 1, &row)) return *why = "an indexing map is not linear in the loops", nullptr;
      map.push_back(row);
    }
    json["operands"].push_back(
        {{"value", number_of(operand.get())}, {"map", map}, {"shape", shape_of(operand.get())}});
  }
  json["body"] = body.json;
  json["yield"] = body.yield();
  return json;
}

Json meaning_of(func::FuncOp function, std::string* why) {
  const llvm::DenseMap<Value, int64_t> numbers = numbered_values(function);
  Json json = {{"arguments", function.getNumArguments()}, {"results", Json::array()}, {"ops", Json::array()}};
  for (Operation& op : function.getBody().front()) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value v : op.getOperands()) json["results"].push_back(numbers.lookup(v));
      continue;
    }
    if (op.getNumResults() == 0 || !isa<RankedTensorType>(op.getResult(0).getType())) continue;
    const int64_t value = numbers.lookup(op.getResult(0));
    if (std::optional<Json> known = plain(op, numbers)) {
      (*known)["value"] = value;
      (*known)["shape"] = shape_of(op.getResult(0));
      (*known)["location"] = location_text(op.getLoc());
      json["ops"].push_back(*std::move(known));
      continue;
    }
    auto linalg_op = dyn_cast<linalg::LinalgOp>(op);
    Json of = nullptr;
    *why = "not a linalg op on tensors";
    if (linalg_op && linalg_op.hasPureTensorSemantics())
      of = meaning_of(
          linalg_op, value, [&](Value v) { return numbers.lookup(v); }, why);
    if (of.is_null()) return *why = absl::StrCat(op.getName().getStringRef().str(), ": ", *why), nullptr;
    json["ops"].push_back(std::move(of));
  }
  return json;
}

}  // namespace lathe
