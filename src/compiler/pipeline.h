// Pipelines: YAML under kernels/<op>/<backend>.yaml, run stage by stage over the payload.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/problem.h"

namespace mlir {
class ModuleOp;
}

namespace lathe {

// One stage: a pass pipeline in MLIR's textual form, or a named emitter.
struct Stage {
  std::string name;
  std::string passes;
  std::string emitter;
};

struct Pipeline {
  std::string name;  // "matmul.cpu"
  std::vector<Stage> stages;
};

// The text built into the library; kUnimplemented if the op has none for the backend.
absl::StatusOr<std::string> builtin_pipeline_text(Op op, Backend backend);
absl::StatusOr<std::string> builtin_pipeline_text(absl::string_view name);  // "matmul.external"
// Every defect of the text (not YAML, unknown key, a stage with none or both of passes and emitter) is an
// error.
absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml);

// Runs the stages. `observe(stage name, module)` is called after each. Errors name the pipeline, the stage
// and what the stage's diagnostics say. `${chip}` in a stage's passes becomes the AMD GPU whose instructions
// the target's code may use.
absl::Status run_pipeline(const Pipeline& pipeline, const Target& target, mlir::ModuleOp module,
                          const std::function<void(const std::string&, mlir::ModuleOp)>& observe);

// Registers the passes that pipelines may name; once per process.
void register_passes();

}  // namespace lathe
