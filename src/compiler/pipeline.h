// Pipelines: YAML files whose stages run over the payload in order. Lathe's own are kernels/<op>/<backend>.yaml.
// A user's pipeline comes with the request.
//
//   for: matmul.cpu                                   # the op and the backend
//   stages:
//     - name: lower                                   # each stage has one of passes, emitter, schedule
//       passes: canonicalize,convert-gpu-to-rocdl{chipset=${target.chip}}
//     - name: kernel
//       emitter: matmul.cpu                           # one of kernels/<op>/emitters.cc
//     - name: tile
//       schedule: tile.mlir                           # transform dialect; path relative to the YAML file
//       parameters: {tile_m: plan.tile_m, depth: params.depth, width: 16}
//
// A parameter, and ${...} in passes, may be
//   plan.FIELD       a field of CompileConfig
//   kernel.symbol    the name of the payload function
//   target.arch, target.features
//   target.chip      the AMD GPU whose instructions the code may use
//   params.NAME      a parameter from the user's parameters file
//   a whole number
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace mlir {
class MLIRContext;
class ModuleOp;
}  // namespace mlir

namespace lathe {

struct EmitterRow;
class Schedule;

struct Binding {
  std::string name, value;
  int line = 0;
};

// Exactly one of passes (an MLIR pass pipeline as text), emitter and schedule is not empty.
struct Stage {
  std::string name, passes, emitter, schedule;
  std::vector<Binding> parameters;  // of the schedule
  int line = 0;                     // the line of passes, emitter or schedule
};

struct Pipeline {
  std::string name;    // the file name, for errors
  std::string serves;  // "matmul.cpu"
  std::vector<Stage> stages;
};

// The texts of a pipeline, and their file names for errors.
struct PipelineText {
  std::string name, yaml;
  std::map<std::string, std::string> schedules;  // from the path in the YAML file to the text
  std::string parameters_name, parameters;       // a JSON file with the user's "parameters"; empty if none
};
// From a request: {"name", "text", "schedules": {}, "parameters": {"name", "text"}}. The last two are optional.
absl::StatusOr<PipelineText> pipeline_text_from_json(const Json& json);
Json to_json(const PipelineText& text);
// The built-in pipeline with this pipeline_name; kUnimplemented if there is none.
absl::StatusOr<PipelineText> builtin_pipeline(absl::string_view name);
// Reads a user's pipeline: its file, the schedules that it names, and the parameters file (empty: none).
absl::StatusOr<PipelineText> read_pipeline(const std::string& path, const std::string& parameters_path);

// Errors have file and line. A text that is not YAML, an unknown or missing key, and a stage with no or several
// of passes, emitter and schedule are errors.
absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml);

// A stage in which every name is resolved.
struct BoundStage {
  std::string name, passes;
  const EmitterRow* emitter = nullptr;
  std::shared_ptr<const Schedule> schedule;
};
struct BoundPipeline {
  std::string name;
  std::vector<BoundStage> stages;
  // The user's parameters that no stage uses: from "params.NAME" to a message with file and line.
  std::map<std::string, std::string> unused;
};
// Resolves all names before anything runs. `serves` is the pipeline_name that is needed. Unknown passes,
// emitters, values and schedules, and unbound parameters are errors with file and line.
absl::StatusOr<BoundPipeline> bind_pipeline(const PipelineText& text, absl::string_view serves,
                                            const CompileConfig& config, const Target& target,
                                            const std::string& symbol, mlir::MLIRContext* context);

// Runs the stages and calls `observe(stage name, module)` after each. Errors have the pipeline, the stage and
// MLIR's diagnostics.
absl::Status run_pipeline(const BoundPipeline& pipeline, mlir::ModuleOp module,
                          const std::function<void(const std::string&, mlir::ModuleOp)>& observe);

std::string pipeline_name(Op op, Backend backend);  // "matmul.cpu"
std::string external_pipeline_name(Op op);          // "matmul.external", for all backends

// Registers the passes that pipelines may use, once per process.
void register_passes();

}  // namespace lathe
