#include "compiler/schedule.h"

#include "absl/strings/str_cat.h"
#include "compiler/dialect.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "mlir/Dialect/Linalg/TransformOps/DialectExtension.h"
#include "mlir/Dialect/Linalg/Transforms/TilingInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorInferTypeOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/IR/TensorTilingInterfaceImpl.h"
#include "mlir/Dialect/Tensor/TransformOps/TensorTransformOps.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformOps.h"
#include "mlir/Dialect/Transform/IR/TransformTypes.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/Verifier.h"

namespace lathe {
namespace {
using namespace mlir;

constexpr char kParameterAttr[] = "lathe.parameter";

// The dialects and interfaces that only schedules need. They are loaded when a context parses its first
// schedule, so other compilations do not pay for them.
const DialectRegistry& schedule_dialects() {
  static const DialectRegistry registry = [] {
    DialectRegistry r;
    r.insert<transform::TransformDialect>();
    linalg::registerTransformDialectExtension(r);
    tensor::registerTransformDialectExtension(r);
    linalg::registerTilingInterfaceExternalModels(r);
    tensor::registerTilingInterfaceExternalModels(r);
    tensor::registerInferTypeOpInterfaceExternalModels(r);
    return r;
  }();
  return registry;
}

std::string text_of(Location location) {
  if (auto place = dyn_cast<FileLineColLoc>(location))
    return absl::StrCat(place.getFilename().str(), ":", place.getLine(), ":", place.getColumn());
  return "?";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Schedule>> Schedule::parse(MLIRContext* context, const std::string& name,
                                                          const std::string& text) {
  context->appendDialectRegistry(schedule_dialects());
  context->loadAllAvailableDialects();
  std::string complaint;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic& d) {
    if (complaint.empty() && d.getSeverity() == DiagnosticSeverity::Error)
      complaint = absl::StrCat(text_of(d.getLocation()), ": ", d.str());
    return success();
  });
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), llvm::SMLoc());
  auto schedule = std::make_unique<Schedule>();
  schedule->module_ = parseSourceFile<ModuleOp>(sources, ParserConfig(context));
  if (!schedule->module_)
    return absl::InvalidArgumentError(complaint.empty() ? absl::StrCat(name, ":1: it does not parse")
                                                        : complaint);
  absl::Status found = schedule->find_entry();
  if (!found.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ":", found.message()));
  return schedule;
}

absl::Status Schedule::find_entry() {
  const StringRef name = transform::TransformDialect::kTransformEntryPointSymbolName;
  auto entry = module_->lookupSymbol<transform::NamedSequenceOp>(name);
  if (!entry || entry.isExternal())
    return absl::InvalidArgumentError(absl::StrCat("1: the file has no named sequence @", name.str()));
  entry_ = entry;
  const auto refuse = [](Location at, const std::string& why) {
    const auto place = dyn_cast<FileLineColLoc>(at);
    return absl::InvalidArgumentError(absl::StrCat(place ? place.getLine() : 1, ": ", why));
  };
  auto arguments = entry.getBody().getArguments();
  if (arguments.empty() || !isa<transform::TransformHandleTypeInterface>(arguments[0].getType()))
    return refuse(entry.getLoc(), "its first argument is not a handle to the payload");
  for (BlockArgument argument : arguments.drop_front()) {
    auto named = entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kParameterAttr);
    if (!named)
      return refuse(argument.getLoc(),
                    "every argument after the payload must have the attribute lathe.parameter = \"name\"");
    auto number = dyn_cast<transform::ParamType>(argument.getType());
    if (!(number && number.getType().isInteger(64)) && !isa<transform::AnyParamType>(argument.getType()))
      return refuse(argument.getLoc(),
                    absl::StrCat("parameter '", named.getValue().str(),
                                 "' is neither a !transform.param<i64> nor a !transform.any_param"));
    for (const Parameter& other : parameters_)
      if (other.name == named.getValue())
        return refuse(argument.getLoc(), absl::StrCat("two parameters have the name '", other.name, "'"));
    parameters_.push_back({named.getValue().str(), text_of(argument.getLoc()), static_cast<bool>(number)});
  }
  return absl::OkStatus();
}

absl::Status Schedule::bind(const std::map<std::string, Json>& values) {
  OpBuilder b(module_->getContext());
  bound_.clear();
  for (const Parameter& parameter : parameters_) {
    const Json& value = values.at(parameter.name);
    if (value.is_number_integer() != parameter.is_number || !(value.is_number_integer() || value.is_string()))
      return absl::InvalidArgumentError(absl::StrCat(
          parameter.location, ": parameter '", parameter.name, "' is a ",
          parameter.is_number ? "whole number" : "string", ", but its value is ", canonical_text(value)));
    bound_.push_back(parameter.is_number ? Attribute(b.getI64IntegerAttr(value.get<int64_t>()))
                                         : Attribute(b.getStringAttr(value.get<std::string>())));
  }
  return absl::OkStatus();
}

LogicalResult Schedule::run(ModuleOp payload) const {
  RaggedArray<transform::MappedValue> bindings;
  for (Attribute value : bound_) bindings.push_back(SmallVector<transform::MappedValue>{value});
  if (failed(transform::applyTransforms(payload, cast<transform::TransformOpInterface>(entry_), bindings,
                                        transform::TransformOptions().enableExpensiveChecks(true),
                                        /*enforceToplevelTransformOp=*/false)))
    return failure();
  return verify(payload);
}

}  // namespace lathe
