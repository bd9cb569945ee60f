#include "compiler/inspect.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/context.h"
#include "compiler/inspect_steps.h"
#include "compiler/meaning.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/AsmParser/AsmParserState.h"
#include "mlir/IR/Verifier.h"

namespace lathe {
namespace payload {
namespace {
using namespace mlir;

// Limits that keep MLIR's recursive parser within a thread's stack.
constexpr size_t kMostBytes = 1 << 20, kMostDepth = 200;

Json refusal(absl::string_view location, absl::string_view reason, bool malformed) {
  return {{"refused", {{"location", location}, {"reason", reason}, {"malformed", malformed}}}};
}

struct Refused {
  Location location;
  Reason reason;
};

// Reads one function as a program.
class Function {
 public:
  explicit Function(func::FuncOp function) : function_(function) {}

  // Returns nullopt and sets *refused if the function is not a program.
  std::optional<Json> read(std::optional<Refused>* refused) {
    if (!function_.getBody().hasOneBlock())
      return refuse(function_, "its body is not a single block", refused);
    for (BlockArgument argument : function_.getArguments())
      if (Reason why = check_argument(argument); !why.empty()) return refuse(function_, why, refused);
    in_text_ = numbered_values(function_);
    for (Operation& op : function_.getBody().front())
      if (Reason why = visit(op); !why.empty()) return refuse(&op, why, refused);
    Operation* returned = function_.getBody().front().getTerminator();
    for (Value v : returned->getOperands())
      if (!isa<RankedTensorType>(v.getType()) || !is_known(source_of(v).first) ||
          !is_identity(source_of(v).second))
        return refuse(returned, "it returns a value that is neither an argument nor the result of a step",
                      refused);
    drop_unread(returned->getOperands());
    Json json = {{"name", function_.getName().str()}, {"arguments", Json::array()}, {"steps", Json::array()}};
    for (BlockArgument argument : function_.getArguments()) json["arguments"].push_back(number(argument));
    for (const Step& step : steps_) json["steps"].push_back(to_json(step));
    json["results"] = Json::array();
    for (Value v : returned->getOperands()) json["results"].push_back(number(source_of(v).first));
    json["values"] = std::move(values_);
    json["numbers"] = std::move(in_text_of_values_);
    std::string unknown;
    json["meaning"] = meaning_of(function_, &unknown);
    if (json["meaning"].is_null()) json["unjudged"] = unknown;
    return json;
  }

 private:
  static Reason check_argument(BlockArgument argument) {
    if (!isa<RankedTensorType>(argument.getType())) return "an argument is not a ranked tensor";
    const Type element = getElementTypeOrSelf(argument.getType());
    if (argument.use_empty() || dtype_of(element) != DType::kNone) return "";
    return absl::StrCat("argument ", argument.getArgNumber(), " has elements of type ", type_name(element),
                        ", which Lathe does not support");
  }
  static std::optional<Json> refuse(Operation* op, Reason why, std::optional<Refused>* refused) {
    *refused = Refused{op->getLoc(), absl::StrCat(op->getName().getStringRef().str(), ": ", why)};
    return std::nullopt;
  }

  // ---- Tensors

  // Follows casts and transpositions from `v` to their source. Returns the source and, for each of its
  // dimensions, the matching dimension of `v`.
  std::pair<Value, SmallVector<int64_t>> source_of(Value v) const {
    SmallVector<int64_t> places;
    for (int64_t i = 0; i < cast<RankedTensorType>(v.getType()).getRank(); ++i) places.push_back(i);
    while (Operation* op = v.getDefiningOp()) {
      if (auto cast_op = dyn_cast<tensor::CastOp>(op)) {
        v = cast_op.getSource();
      } else if (auto transposed = dyn_cast<linalg::TransposeOp>(op)) {
        SmallVector<int64_t> inner(places.size());
        for (auto [i, from] : llvm::enumerate(transposed.getPermutation())) inner[from] = places[i];
        places = inner;
        v = transposed.getInput();
      } else {
        break;
      }
    }
    return {v, places};
  }
  static bool is_identity(ArrayRef<int64_t> places) { return llvm::is_sorted(places); }

  // Replaces an access to a cast or transposed tensor by an access to its source.
  Reason resolve(Access* access) const {
    if (!access->tensor) return "";
    if (access->dims.empty() && cast<RankedTensorType>(access->tensor.getType()).getRank() > 0)
      return "an operand has an index that is not a single loop";
    const auto [source, places] = source_of(access->tensor);
    std::string dims(access->dims);
    for (auto [i, place] : llvm::enumerate(places)) dims[i] = access->dims[place];
    // Dimensions that the step merges must still be adjacent and in order.
    for (size_t i = 0; i < dims.size(); ++i)
      for (size_t j = i + 1; j < dims.size(); ++j)
        if (dims[i] == dims[j] && dims[i] != 'r' && places[j] - places[i] != static_cast<int64_t>(j - i))
          return "dimensions of an operand that the step must merge are transposed";
    *access = {source, dims};
    return is_known(source) ? "" : "an operand is neither an argument nor the result of a step";
  }
  // Whether `v` needs no step, because a kernel or an evaluator can compute its elements where it needs them.
  static bool is_computed(Value v) {
    int64_t offset = 0;
    return v.getDefiningOp<linalg::FillOp>() || dimension_counted(v, &offset);
  }
  bool is_known(Value v) const { return isa<BlockArgument>(v) || producers_.count(v); }

  int64_t number(Value v) {
    const auto [at, is_new] = numbers_.try_emplace(v, static_cast<int64_t>(values_.size()));
    if (is_new) {
      const auto type = cast<RankedTensorType>(v.getType());
      Json shape = Json::array();
      for (int64_t extent : type.getShape())
        shape.push_back(ShapedType::isDynamic(extent) ? Json() : Json(extent));
      in_text_of_values_.push_back(in_text_.lookup(v));
      values_.push_back({{"dtype", name_of(dtype_of(type.getElementType()))}, {"shape", shape}});
    }
    return at->second;
  }

  // ---- Ops

  Reason visit(Operation& op) {
    if (isa<func::ReturnOp, tensor::EmptyOp, tensor::CastOp, linalg::TransposeOp>(op)) return "";
    const bool scalar =
        isa<arith::ArithDialect, affine::AffineDialect>(op.getDialect()) || isa<tensor::DimOp>(op);
    if (scalar && op.getNumRegions() == 0)
      return "";  // constants and sizes; a step that uses them as an operand is refused there
    auto linalg_op = dyn_cast<linalg::LinalgOp>(op);
    if (!linalg_op || !linalg_op.hasPureTensorSemantics()) return "Lathe does not support this op";
    if (is_argmax(linalg_op)) return visit_argmax(linalg_op);
    if (op.getNumResults() == 1 && is_computed(op.getResult(0))) return "";
    if (op.getNumResults() != 1) return "it has several results";
    if (linalg_op.getNumReductionLoops() > 0) return visit_product(linalg_op);
    return visit_elementwise(linalg_op);
  }

  Reason visit_product(linalg::LinalgOp op) {
    Step step(Op::kMatmul, op.getLoc());
    if (Reason why = read_product(op, &step); !why.empty()) return why;
    fold_producers(&step);
    for (Access* access : {&step.a, &step.b, &step.c})
      if (Reason why = resolve(access); !why.empty()) return why;
    if (!has_unit(step.a.dims, "mk") || !has_unit(step.b.dims, "nk"))
      return "an operand's innermost dimension is the batch";
    append(step);
    return "";
  }
  // Folds the producers of the operands into the product, if nothing else reads their results. A constant
  // factor becomes part of alpha. If both operands were widened to f32, the product takes the narrow ones.
  void fold_producers(Step* step) {
    for (Access* access : {&step->a, &step->b}) {
      const Producer made = producer_of(access->tensor);
      if (!made.factor) continue;
      step->alpha *= *made.factor;
      access->tensor = made.input;
    }
    const Producer a = producer_of(step->a.tensor), b = producer_of(step->b.tensor);
    if (!a.is_widening || !b.is_widening ||
        getElementTypeOrSelf(a.input.getType()) != getElementTypeOrSelf(b.input.getType()))
      return;
    step->a.tensor = a.input;
    step->b.tensor = b.input;
  }
  struct Producer {
    Value input;
    std::optional<double> factor;
    bool is_widening = false;
  };
  Producer producer_of(Value v) const {
    auto op = v.getDefiningOp<linalg::GenericOp>();
    if (!op || !v.hasOneUse() || op.getNumDpsInputs() != 1 || !getElementTypeOrSelf(v.getType()).isF32())
      return {};
    const auto is_alone = [&](const Step& s) { return s.op == Op::kElementwise && s.d.tensor == v; };
    if (llvm::none_of(steps_, is_alone)) return {};
    if (!llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); })) return {};
    const Value element = op.getBody()->getArgument(0), made = op.getBody()->getTerminator()->getOperand(0);
    Producer producer{op.getDpsInputs()[0], std::nullopt};
    if (auto times = made.getDefiningOp<arith::MulFOp>()) {
      if (times.getLhs() == element) producer.factor = constant_of(times.getRhs());
      if (times.getRhs() == element) producer.factor = constant_of(times.getLhs());
    } else if (auto wide = made.getDefiningOp<arith::ExtFOp>()) {
      producer.is_widening = wide.getIn() == element;
    }
    return producer;
  }
  static bool has_unit(const std::string& dims, absl::string_view units) {
    return !dims.empty() && units.find(dims.back()) != absl::string_view::npos;
  }

  Reason visit_elementwise(linalg::LinalgOp op) {
    if (fuse(op).empty()) return "";
    Step step(Op::kMatmul, op.getLoc());
    if (read_diagonal(op, &step).empty() && resolve(&step.a).empty() && resolve(&step.b).empty() &&
        step.b.dims == "bn") {
      append(step);
      return "";
    }
    return visit_alone(op);
  }

  // Makes the op a separate step.
  Reason visit_alone(linalg::LinalgOp op) {
    Step step(Op::kElementwise, op.getLoc());
    std::string unknown;
    if (meaning_of(
            op, 0, [&](Value v) { return in_text_.lookup(v); }, &unknown)
            .is_null())
      return unknown;
    for (OpOperand& operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()) || !op.payloadUsesValueFromOperand(&operand))
        continue;
      const Value source = source_of(operand.get()).first;
      if (is_known(source)) {
        step.reads.push_back(source);
      } else if (!is_computed(source)) {
        return "an operand is neither an argument nor the result of a step";
      }
    }
    if (step.reads.empty()) return "it reads no tensor";
    const Value result = op->getResult(0);
    if (dtype_of(getElementTypeOrSelf(result.getType())) == DType::kNone)
      return "its result has an element type that Lathe does not support";
    if (!op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity()) return "its result is permuted";
    step.d = {result, std::string(op.getNumLoops(), 'r')};
    step.on_host = read_elementwise(
        op, [&](Access* access) { return resolve(access); }, &step);
    append(step);
    return "";
  }

  Reason fuse(linalg::LinalgOp op) {
    // Fuse into the last of the products that only this op reads. All other operands exist at that point.
    size_t latest = steps_.size();
    for (Value input : op.getDpsInputs()) {
      const std::optional<size_t> at = open_product(input);
      if (at && (latest == steps_.size() || *at > latest)) latest = *at;
    }
    if (latest == steps_.size()) return "no matmul precedes it whose result nothing else reads";
    Step step = steps_[latest];
    if (Reason why = read_epilogue(op, step.d.tensor, &step); !why.empty()) return why;
    for (Access* access : {&step.c, &step.bias, &step.residual}) {
      if (!access->tensor || isa<BlockArgument>(access->tensor)) continue;
      if (Reason why = resolve(access); !why.empty()) return why;
    }
    remove(latest);
    append(step);
    return "";
  }

  Reason visit_argmax(linalg::LinalgOp op) {
    Step step(Op::kArgmax, op.getLoc());
    if (Reason why = read_argmax(op, &step); !why.empty()) return why;
    const std::optional<size_t> product = open_product(step.a.tensor);
    if (product && step.a.dims == "rn" && join_argmax(steps_[*product], &step)) {
      remove(*product);
    } else {
      // All row dimensions have the same letter, so they must have the order of the results.
      SmallVector<int64_t> rows;
      for (int64_t place : source_of(step.a.tensor).second)
        if (step.a.dims[place] == 'r') rows.push_back(place);
      if (!llvm::is_sorted(rows)) return "its input is transposed";
      if (Reason why = resolve(&step.a); !why.empty()) return why;
    }
    append(step);
    return "";
  }

  // ---- Steps

  std::optional<size_t> open_product(Value v) const {
    for (size_t i = 0; i < steps_.size(); ++i)
      if (steps_[i].op == Op::kMatmul && steps_[i].d.tensor == v && v.hasOneUse()) return i;
    return std::nullopt;
  }
  void append(const Step& step) {
    for (Value v : {step.d.tensor, step.indices.tensor, step.values.tensor})
      if (v) producers_.insert(v);
    steps_.push_back(step);
  }
  void remove(size_t at) {
    producers_.erase(steps_[at].d.tensor);
    steps_.erase(steps_.begin() + static_cast<ptrdiff_t>(at));
  }

  // Removes elementwise steps whose results nothing reads, because another step now reads their source.
  void drop_unread(OperandRange returned) {
    llvm::DenseSet<Value> read;
    for (Value v : returned) read.insert(source_of(v).first);
    for (size_t i = steps_.size(); i-- > 0;) {
      const Step& step = steps_[i];
      if (step.op == Op::kElementwise && !read.contains(step.d.tensor)) {
        remove(i);
        continue;
      }
      for (const Access* access : {&step.a, &step.b, &step.c, &step.bias, &step.residual})
        if (access->tensor) read.insert(access->tensor);
      read.insert(step.reads.begin(), step.reads.end());
    }
  }

  void put(Json* json, const char* name, const Access& access) {
    if (access.tensor) (*json)[name] = {{"value", number(access.tensor)}, {"dims", access.dims}};
  }
  Json to_json(const Step& step) {
    if (step.op == Op::kElementwise) {
      Json json = {
          {"op", "elementwise"}, {"location", location_text(step.location)}, {"reads", Json::array()}};
      for (Value v : step.reads) json["reads"].push_back(number(v));
      put(&json, "d", step.d);
      for (size_t i = 0; i < step.inputs.size(); ++i)
        put(&json, absl::StrCat("in", i).c_str(), step.inputs[i]);
      json[step.on_host.empty() ? "program" : "on_host"] = step.on_host.empty() ? step.program : step.on_host;
      return json;
    }
    Json json = {{"op", name_of(step.op)}, {"location", location_text(step.location)}};
    put(&json, step.op == Op::kArgmax ? "x" : "a", step.a);
    put(&json, "b", step.b);
    put(&json, "bias", step.bias);
    if (step.op == Op::kMatmul) {
      put(&json, "c", step.c);
      put(&json, "residual", step.residual);
      put(&json, "d", step.d);
      json["alpha"] = step.alpha;
      json["activation"] = name_of(step.activation);
      return json;
    }
    put(&json, "indices", step.indices);
    put(&json, "values", step.values);
    json["index_offset"] = step.index_offset;
    if (step.op == Op::kMatmulArgmax) json["logits"] = name_of(step.logits);
    return json;
  }

  func::FuncOp function_;
  std::vector<Step> steps_;
  llvm::DenseSet<Value> producers_;  // the results of the steps
  llvm::DenseMap<Value, int64_t> numbers_;
  Json values_ = Json::array(), in_text_of_values_ = Json::array();
  llvm::DenseMap<Value, int64_t> in_text_;  // the numbers of meaning.h
};

size_t depth_of(absl::string_view text) {
  size_t depth = 0, most = 0;
  for (char c : text) {
    if (c == '(' || c == '[' || c == '{' || c == '<') most = std::max(most, ++depth);
    if ((c == ')' || c == ']' || c == '}' || c == '>') && depth > 0) --depth;
  }
  return most;
}

Json read_module(ModuleOp module) {
  Json functions = Json::array();
  for (Operation& op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    std::optional<Refused> refused;
    std::optional<Json> json;
    if (function) json = Function(function).read(&refused);
    if (!function)
      refused = Refused{op.getLoc(), absl::StrCat(op.getName().getStringRef().str(), ": not a function")};
    if (refused) return refusal(location_text(refused->location), refused->reason, false);
    functions.push_back(*std::move(json));
  }
  if (functions.empty()) return refusal(location_text(module.getLoc()), "the module has no function", false);
  return {{"functions", functions}};
}

// Gives ops without a location (`loc(unknown)`) the line and column of their name in the text. Ops that are not
// in the text, such as those in the region of a named op, get the location of the enclosing op.
void place(ModuleOp module, const AsmParserState& parsed, const llvm::SourceMgr& sources) {
  const llvm::StringRef name = sources.getMemoryBuffer(sources.getMainFileID())->getBufferIdentifier();
  module->walk<WalkOrder::PreOrder>([&](Operation* op) {
    if (!location_text(op->getLoc()).empty()) return;
    if (const auto* definition = parsed.getOpDef(op)) {
      const auto [line, column] = sources.getLineAndColumn(definition->loc.Start);
      op->setLoc(FileLineColLoc::get(op->getContext(), name, line, column));
    } else if (Operation* around = op->getParentOp()) {
      op->setLoc(around->getLoc());
    }
  });
}

// Parses the text. Wraps it in a module if it has none. Returns null if it does not parse.
OwningOpRef<ModuleOp> parse(const llvm::SourceMgr& sources, MLIRContext* context) {
  const llvm::StringRef name = sources.getMemoryBuffer(sources.getMainFileID())->getBufferIdentifier();
  OwningOpRef<ModuleOp> module = ModuleOp::create(FileLineColLoc::get(context, name, 0, 0));
  AsmParserState parsed;
  if (failed(parseAsmSourceFile(sources, module->getBody(), ParserConfig(context, /*verifyAfterParse=*/false),
                                &parsed)))
    return nullptr;
  if (llvm::hasSingleElement(*module->getBody()))
    if (auto inner = dyn_cast<ModuleOp>(module->getBody()->front())) {
      inner->remove();
      module = inner;
    }
  place(*module, parsed, sources);
  return module;
}

}  // namespace

DType dtype_of(Type element) {
  if (element.isF32()) return DType::kF32;
  if (element.isF16()) return DType::kF16;
  if (element.isBF16()) return DType::kBF16;
  if (element.isInteger(8) && !element.isUnsignedInteger()) return DType::kI8;
  if (element.isInteger(32) && !element.isUnsignedInteger()) return DType::kI32;
  if (element.isInteger(64) && !element.isUnsignedInteger()) return DType::kI64;
  if (isa<Float8E4M3FNType>(element)) return DType::kF8E4M3;
  if (isa<Float8E5M2Type>(element)) return DType::kF8E5M2;
  if (isa<Float8E4M3FNUZType>(element)) return DType::kF8E4M3Fnuz;
  if (isa<Float8E5M2FNUZType>(element)) return DType::kF8E5M2Fnuz;
  return DType::kNone;
}

std::string letters_of(AffineMap map, ArrayRef<char> dimensions) {
  std::string letters;
  for (AffineExpr result : map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(result);
    if (!dim) return "";
    letters += dimensions[dim.getPosition()];
  }
  return letters;
}

std::optional<double> constant_of(Value scalar) {
  APFloat number(0.0);
  APInt integer;
  if (matchPattern(scalar, m_ConstantFloat(&number))) {
    bool lost = false;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return number.convertToDouble();
  }
  if (matchPattern(scalar, m_ConstantInt(&integer)) && integer.getSignificantBits() <= 53)
    return static_cast<double>(integer.getSExtValue());
  return std::nullopt;
}

bool is_filled(Value init, double number) {
  if (auto fill = init.getDefiningOp<linalg::FillOp>()) {
    const std::optional<double> c = constant_of(fill.getInputs()[0]);
    return c && *c == number;
  }
  DenseElementsAttr elements;
  if (!matchPattern(init, m_Constant(&elements)) || !elements.isSplat()) return false;
  if (isa<FloatType>(elements.getElementType())) {
    APFloat value = elements.getSplatValue<APFloat>();
    bool lost = false;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return value.convertToDouble() == number;
  }
  return elements.getElementType().isIntOrIndex() && elements.getSplatValue<APInt>() == 0 && number == 0;
}

}  // namespace payload

Json inspect_payload(absl::string_view name, absl::string_view text) {
  using namespace mlir;
  if (text.size() > payload::kMostBytes)
    return payload::refusal(
        name, absl::StrCat(text.size(), " bytes, more than the limit of ", payload::kMostBytes), true);
  if (payload::depth_of(text) > payload::kMostDepth)
    return payload::refusal(
        name, absl::StrCat("brackets are nested more than ", payload::kMostDepth, " levels deep"), true);
  CompilerContext context;
  std::optional<Json> complaint;
  ScopedDiagnosticHandler handler(&context.get(), [&](Diagnostic& d) {
    if (complaint || d.getSeverity() != DiagnosticSeverity::Error) return success();
    const std::string place = location_text(d.getLocation());
    complaint = payload::refusal(place.empty() ? name : place, d.str(), true);
    return success();
  });
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(text.data(), text.size()),
                                                                  llvm::StringRef(name.data(), name.size())),
                             llvm::SMLoc());
  OwningOpRef<ModuleOp> module = payload::parse(sources, &context.get());
  if (!module) return complaint.value_or(payload::refusal(name, "it does not parse", true));
  if (failed(verify(*module))) return complaint.value_or(payload::refusal(name, "it does not verify", true));
  return payload::read_module(*module);
}

}  // namespace lathe
