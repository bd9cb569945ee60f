#include "compiler/pipeline.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "compiler/external.h"
#include "compiler/mlir.h"
#include "compiler/passes.h"
#include "compiler/registry.h"
#include "compiler/schedule.h"
#include "core/amd_targets.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace lathe {
namespace {

struct BuiltinPipeline {
  const char* name;
  const char* text;
};
constexpr BuiltinPipeline kBuiltin[] = {
#include "builtin_pipelines.inc"
};

// Collects MLIR's errors while a stage runs, so that Lathe's error can quote them.
class DiagnosticText {
 public:
  explicit DiagnosticText(mlir::MLIRContext* context)
      : handler_(context, [this](mlir::Diagnostic& d) {
          if (d.getSeverity() == mlir::DiagnosticSeverity::Error && text_.size() < 2000)
            absl::StrAppend(&text_, text_.empty() ? "" : "; ", d.str());
          return mlir::success();
        }) {}
  std::string text() const { return text_.empty() ? "no diagnostic" : text_.substr(0, 2000); }

 private:
  std::string text_;
  mlir::ScopedDiagnosticHandler handler_;
};

absl::StatusOr<std::string> read_text(const std::string& path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read '", path, "': ", buffer.getError().message()));
  return (*buffer)->getBuffer().str();
}

// The values that a pipeline may use, by name.
class Values {
 public:
  Values(const CompileConfig& config, const Target& target, const std::string& symbol) {
    const Json plan = to_json(config);
    for (const auto& [name, value] : plan.items())
      if (!value.is_structured()) values_[absl::StrCat("plan.", name)] = value;
    values_["plan.ukernel"] = config.ukernel.function;
    values_["kernel.symbol"] = symbol;
    values_["target.arch"] = target.arch;
    values_["target.features"] = target.features;
    values_["target.chip"] = std::string(amd_baseline(target.arch));
  }

  // Adds the user's parameters.
  absl::Status add(const PipelineText& text) {
    if (text.parameters_name.empty()) return absl::OkStatus();
    const auto refuse = [&](size_t at, const std::string& why) {
      const auto lines =
          std::count(text.parameters.begin(), text.parameters.begin() + static_cast<long>(at), '\n');
      return absl::InvalidArgumentError(absl::StrCat(text.parameters_name, ":", lines + 1, ": ", why));
    };
    LATHE_ASSIGN_OR_RETURN(const Json json, parse_json_file(text.parameters, text.parameters_name));
    if (!json.is_object()) return refuse(0, "it is not an object");
    if (!json.contains("parameters")) return absl::OkStatus();
    if (!json["parameters"].is_object()) return refuse(0, "\"parameters\" is not an object");
    const size_t begin = text.parameters.find("\"parameters\"");
    for (const auto& [name, value] : json["parameters"].items()) {
      const size_t found = text.parameters.find(absl::StrCat("\"", name, "\""), begin + 1);
      const size_t at = found == std::string::npos ? begin : found;
      if (!value.is_number_integer() && !value.is_string())
        return refuse(at, absl::StrCat("parameter '", name, "' is neither a whole number nor a string"));
      values_[absl::StrCat("params.", name)] = value;
      unused_[absl::StrCat("params.", name)] =
          std::string(refuse(at, absl::StrCat("parameter '", name, "' is used by no stage")).message());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Json> get(const std::string& name) {
    int64_t number = 0;
    if (absl::SimpleAtoi(name, &number)) return Json(number);
    unused_.erase(name);
    const auto at = values_.find(name);
    if (at != values_.end()) return at->second;
    if (absl::StartsWith(name, "params.") && name.size() > 7)
      return absl::InvalidArgumentError(
          absl::StrCat("'", name, "' is unbound: it is not in the parameters file"));
    const auto key = [](std::string* out, const auto& value) { absl::StrAppend(out, value.first); };
    return absl::InvalidArgumentError(
        absl::StrCat("unknown value '", name, "'; known: ", absl::StrJoin(values_, ", ", key)));
  }

  // Replaces every ${name} by its value.
  absl::StatusOr<std::string> expand(std::string text) {
    for (size_t at = 0; (at = text.find("${", at)) != std::string::npos;) {
      const size_t end = text.find('}', at);
      if (end == std::string::npos) return absl::InvalidArgumentError("'${' without '}'");
      LATHE_ASSIGN_OR_RETURN(const Json value, get(text.substr(at + 2, end - at - 2)));
      const std::string by = value.is_string() ? value.get<std::string>() : value.dump();
      text.replace(at, end + 1 - at, by);
      at += by.size();
    }
    return text;
  }

  // From "params.NAME" to the message that no stage uses it.
  const std::map<std::string, std::string>& unused() const { return unused_; }

 private:
  std::map<std::string, Json> values_;
  std::map<std::string, std::string> unused_;
};

absl::Status check_passes(const std::string& passes) {
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  mlir::OpPassManager parsed(mlir::ModuleOp::getOperationName());
  if (mlir::succeeded(mlir::parsePassPipeline(passes, parsed, stream))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bad pass pipeline: ", complaint));
}

absl::Status bind_emitter(const Stage& stage, BoundStage* bound) {
  std::vector<absl::string_view> known;
  for (const OpRow& op : ops::kRows)
    for (const EmitterRow& row : emitters_of(op.op)->emitters) {
      if (stage.emitter == row.name) bound->emitter = &row;
      known.push_back(row.name);
    }
  if (bound->emitter) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("unknown emitter '", stage.emitter, "'; known: ", absl::StrJoin(known, ", ")));
}

// Makes an error about a line of the pipeline's file.
using Place = std::function<absl::Status(int line, absl::string_view why)>;

absl::Status bind_schedule(const Stage& stage, const PipelineText& text, const Place& place, Values* values,
                           mlir::MLIRContext* context, BoundStage* bound) {
  const auto source = text.schedules.find(stage.schedule);
  if (source == text.schedules.end())
    return place(stage.line,
                 absl::StrCat("schedule '", stage.schedule, "' is not among the pipeline's schedules"));
  LATHE_ASSIGN_OR_RETURN(std::shared_ptr<Schedule> schedule,
                         Schedule::parse(context, stage.schedule, source->second));
  std::map<std::string, Json> found;
  for (const Binding& binding : stage.parameters) {
    const auto& known = schedule->parameters();
    if (std::none_of(known.begin(), known.end(), [&](const auto& p) { return p.name == binding.name; }))
      return place(binding.line, absl::StrCat(stage.schedule, " has no parameter '", binding.name, "'"));
    absl::StatusOr<Json> value = values->get(binding.value);
    if (!value.ok()) return place(binding.line, value.status().message());
    found[binding.name] = *std::move(value);
  }
  for (const Schedule::Parameter& parameter : schedule->parameters())
    if (!found.count(parameter.name))
      return place(stage.line, absl::StrCat("stage '", stage.name, "' leaves parameter '", parameter.name,
                                            "' of ", parameter.location, " unbound"));
  if (absl::Status s = schedule->bind(found); !s.ok()) return place(stage.line, s.message());
  bound->schedule = std::move(schedule);
  return absl::OkStatus();
}

mlir::LogicalResult run_stage(const BoundStage& stage, mlir::ModuleOp module) {
  if (stage.emitter) {
    if (mlir::failed(stage.emitter->emit(module))) return mlir::failure();
    return mlir::verify(module);
  }
  if (stage.schedule) return stage.schedule->run(module);
  mlir::PassManager passes(module.getContext());
  if (mlir::failed(mlir::parsePassPipeline(stage.passes, passes))) return mlir::failure();
  // The output of emitters is verified above. Verifying after every pass would only take time.
  passes.enableVerifier(false);
  return passes.run(module);
}

}  // namespace

std::string pipeline_name(Op op, Backend backend) { return absl::StrCat(name_of(op), ".", name_of(backend)); }
std::string external_pipeline_name(Op op) { return absl::StrCat(name_of(op), ".external"); }

absl::StatusOr<PipelineText> builtin_pipeline(absl::string_view name) {
  PipelineText text;
  text.name = std::string(name);
  for (const BuiltinPipeline& p : kBuiltin)
    if (text.name == p.name) text.yaml = p.text;
  if (text.yaml.empty()) return absl::UnimplementedError(absl::StrCat("no pipeline ", text.name));
  return text;
}

absl::StatusOr<PipelineText> pipeline_text_from_json(const Json& json) {
  return read_json("pipeline", [&] {
    PipelineText text;
    text.name = text_field(json, "name");
    text.yaml = text_field(json, "text");
    if (json.contains("schedules"))
      text.schedules = json["schedules"].get<std::map<std::string, std::string>>();
    if (json.contains("parameters")) {
      text.parameters_name = text_field(json["parameters"], "name");
      text.parameters = text_field(json["parameters"], "text");
    }
    return text;
  });
}

Json to_json(const PipelineText& text) {
  Json json = {{"name", text.name}, {"text", text.yaml}, {"schedules", text.schedules}};
  if (!text.parameters_name.empty())
    json["parameters"] = {{"name", text.parameters_name}, {"text", text.parameters}};
  return json;
}

absl::StatusOr<PipelineText> read_pipeline(const std::string& path, const std::string& parameters_path) {
  PipelineText text;
  text.name = path;
  LATHE_ASSIGN_OR_RETURN(text.yaml, read_text(path));
  if (!parameters_path.empty()) {
    text.parameters_name = parameters_path;
    LATHE_ASSIGN_OR_RETURN(text.parameters, read_text(parameters_path));
  }
  LATHE_ASSIGN_OR_RETURN(const Pipeline pipeline, parse_pipeline(path, text.yaml));
  for (const Stage& stage : pipeline.stages) {
    if (stage.schedule.empty()) continue;
    llvm::SmallString<128> file(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(file, stage.schedule);
    if (llvm::sys::path::is_absolute(stage.schedule)) file = stage.schedule;
    absl::StatusOr<std::string> read = read_text(file.str().str());
    if (!read.ok())
      return absl::InvalidArgumentError(absl::StrCat(path, ":", stage.line, ": ", read.status().message()));
    text.schedules[stage.schedule] = *std::move(read);
  }
  return text;
}

absl::StatusOr<BoundPipeline> bind_pipeline(const PipelineText& text, absl::string_view serves,
                                            const CompileConfig& config, const Target& target,
                                            const std::string& symbol, mlir::MLIRContext* context) {
  LATHE_ASSIGN_OR_RETURN(const Pipeline pipeline, parse_pipeline(text.name, text.yaml));
  const Place place = [&](int line, absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(text.name, ":", line, ": ", why));
  };
  if (pipeline.serves != serves)
    return place(1, absl::StrCat("it is for ", pipeline.serves, ", not for ", serves));
  Values values(config, target, symbol);
  LATHE_RETURN_IF_ERROR(values.add(text));
  BoundPipeline bound;
  bound.name = text.name;
  for (const Stage& stage : pipeline.stages) {
    BoundStage b;
    b.name = stage.name;
    absl::Status status;
    if (!stage.schedule.empty()) {
      LATHE_RETURN_IF_ERROR(bind_schedule(stage, text, place, &values, context, &b));
    } else if (!stage.emitter.empty()) {
      status = bind_emitter(stage, &b);
    } else {
      absl::StatusOr<std::string> passes = values.expand(stage.passes);
      status = passes.ok() ? check_passes(*passes) : passes.status();
      if (status.ok()) b.passes = *std::move(passes);
    }
    if (!status.ok()) return place(stage.line, absl::StrCat("stage '", stage.name, "': ", status.message()));
    bound.stages.push_back(std::move(b));
  }
  bound.unused = values.unused();
  return bound;
}

absl::Status run_pipeline(const BoundPipeline& pipeline, mlir::ModuleOp module,
                          const std::function<void(const std::string&, mlir::ModuleOp)>& observe) {
  for (const BoundStage& stage : pipeline.stages) {
    DiagnosticText diagnostics(module.getContext());
    if (mlir::failed(run_stage(stage, module)))
      return absl::AbortedError(
          absl::StrCat("pipeline ", pipeline.name, ", stage ", stage.name, ": ", diagnostics.text()));
    if (observe) observe(stage.name, module);
  }
  return absl::OkStatus();
}

void register_passes() {
  static const bool once = [] {
    mlir::registerPass(make_distribute_pass);
    mlir::registerPass(make_expand_math_pass);
    mlir::registerPass(make_native_math_pass);
    mlir::registerPass(make_fix_launch_pass);
    mlir::registerPass(make_gpu_to_spirv_pass);
    mlir::registerPass(make_outline_external_pass);
    mlir::registerPass(make_declare_external_pass);
    mlir::registerCanonicalizerPass();
    mlir::registerCSEPass();
    mlir::arith::registerArithExpandOpsPass();
    mlir::registerSCFToControlFlowPass();
    mlir::registerConvertVectorToLLVMPass();
    mlir::registerConvertToLLVMPass();
    mlir::registerConvertMathToLLVMPass();
    mlir::registerFinalizeMemRefToLLVMConversionPass();
    mlir::registerConvertControlFlowToLLVMPass();
    mlir::registerArithToLLVMConversionPass();
    mlir::registerConvertIndexToLLVMPass();
    mlir::registerUBToLLVMConversionPass();
    mlir::registerConvertFuncToLLVMPass();
    mlir::registerReconcileUnrealizedCastsPass();
    mlir::registerConvertGpuOpsToNVVMOps();
    mlir::registerConvertGpuOpsToROCDLOps();
    mlir::registerConvertNVVMToLLVMPass();
    mlir::registerConvertXeGPUToXeVMPass();
    return true;
  }();
  (void)once;
}

}  // namespace lathe
