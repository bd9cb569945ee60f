#include "compiler/pipeline.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status.h"
#include "compiler/external.h"
#include "compiler/mlir.h"
#include "compiler/passes.h"
#include "compiler/registry.h"
#include "core/amd_targets.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLTraits.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

LLVM_YAML_IS_SEQUENCE_VECTOR(lathe::Stage)
template <>
struct llvm::yaml::MappingTraits<lathe::Stage> {
  static void mapping(IO& io, lathe::Stage& s) {
    io.mapRequired("name", s.name);
    io.mapOptional("passes", s.passes);
    io.mapOptional("emitter", s.emitter);
  }
  static std::string validate(IO&, lathe::Stage& s) {
    if (s.passes.empty() == s.emitter.empty())
      return "stage '" + s.name + "' needs either passes or an emitter";
    return "";
  }
};
template <>
struct llvm::yaml::MappingTraits<lathe::Pipeline> {
  static void mapping(IO& io, lathe::Pipeline& p) { io.mapRequired("stages", p.stages); }
};

namespace lathe {
namespace {

struct BuiltinPipeline {
  const char* name;
  const char* text;
};
constexpr BuiltinPipeline kBuiltin[] = {
#include "builtin_pipelines.inc"
};

std::string pipeline_name(Op op, Backend backend) { return absl::StrCat(name_of(op), ".", name_of(backend)); }

// Keeps what MLIR says while a stage runs, so that the error can quote it.
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

mlir::LogicalResult run_stage(const Stage& stage, const Target& target, mlir::ModuleOp module) {
  if (!stage.emitter.empty()) {
    for (const EmitterRow& row : emitter_rows())
      if (stage.emitter == row.name) {
        if (mlir::failed(row.emit(module))) return mlir::failure();
        return mlir::verify(module);
      }
    return module.emitError("no emitter is named '") << stage.emitter << "'";
  }
  mlir::PassManager passes(module.getContext());
  std::string text = absl::StrReplaceAll(stage.passes, {{"${chip}", amd_baseline(target.arch)}, {"\n", " "}});
  std::string complaint;
  llvm::raw_string_ostream stream(complaint);
  if (mlir::failed(mlir::parsePassPipeline(text, passes, stream)))
    return module.emitError("bad pass pipeline: ") << complaint;
  // Emitters are verified above; verifying again after every pass would only cost time.
  passes.enableVerifier(false);
  return passes.run(module);
}

}  // namespace

absl::StatusOr<std::string> builtin_pipeline_text(Op op, Backend backend) {
  return builtin_pipeline_text(pipeline_name(op, backend));
}

absl::StatusOr<std::string> builtin_pipeline_text(absl::string_view name) {
  for (const BuiltinPipeline& p : kBuiltin)
    if (name == p.name) return std::string(p.text);
  return absl::UnimplementedError(absl::StrCat("no pipeline ", name));
}

absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml) {
  Pipeline p;
  std::string complaint;
  auto report = [](const llvm::SMDiagnostic& d, void* out) {
    auto* text = static_cast<std::string*>(out);
    if (text->empty()) *text = absl::StrCat("line ", d.getLineNo(), ": ", d.getMessage().str());
  };
  llvm::yaml::Input input(llvm::StringRef(yaml.data(), yaml.size()), nullptr, report, &complaint);
  input >> p;
  if (input.error() || !complaint.empty())
    return absl::InvalidArgumentError(absl::StrCat("pipeline ", name, ": ", complaint));
  p.name = std::string(name);
  if (p.stages.empty()) return absl::InvalidArgumentError(absl::StrCat("pipeline ", name, ": no stages"));
  return p;
}

absl::Status run_pipeline(const Pipeline& pipeline, const Target& target, mlir::ModuleOp module,
                          const std::function<void(const std::string&, mlir::ModuleOp)>& observe) {
  for (const Stage& stage : pipeline.stages) {
    DiagnosticText diagnostics(module.getContext());
    if (mlir::failed(run_stage(stage, target, module)))
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
    mlir::registerPass(make_outline_external_pass);
    mlir::registerPass(make_declare_external_pass);
    mlir::registerCanonicalizerPass();
    mlir::registerCSEPass();
    mlir::arith::registerArithExpandOpsPass();
    mlir::registerSCFToControlFlowPass();
    mlir::registerConvertVectorToLLVMPass();
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
    return true;
  }();
  (void)once;
}

}  // namespace lathe
