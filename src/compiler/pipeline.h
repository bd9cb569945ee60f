// Pipelines: YAML, run stage by stage over the payload. Lathe's own are kernels/<op>/<backend>.yaml; a user's
// come with a request.
//
//   for: matmul.cpu                                   # the op and the backend that it serves
//   stages:
//     - name: lower                                   # one of passes, emitter and schedule each
//       passes: canonicalize,convert-gpu-to-rocdl{chipset=${target.chip}}
//     - name: kernel
//       emitter: matmul.cpu                           # a row of kernels/emitters.cc
//     - name: tile
//       schedule: tile.mlir                           # transform dialect; beside the YAML file
//       parameters: {tile_m: plan.tile_m, depth: params.depth, width: 16}
//
// In parameters, and as ${...} in passes, stand: plan.FIELD, any of CompileConfig; kernel.symbol, the payload
// function's name; target.arch, target.chip (the AMD GPU whose instructions the code may use) and
// target.features; params.NAME, of the user's own file; and whole numbers.
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

// One of passes (a pass pipeline in MLIR's textual form), emitter and schedule is not "".
struct Stage {
  std::string name, passes, emitter, schedule;
  std::vector<Binding> parameters;  // the schedule's
  int line = 0;                     // of what it runs
};

struct Pipeline {
  std::string name;    // of its file, which errors begin with
  std::string serves;  // "matmul.cpu"
  std::vector<Stage> stages;
};

// What a pipeline is made of: the bytes that shape code, and the names that errors give.
struct PipelineText {
  std::string name, yaml;
  std::map<std::string, std::string> schedules;  // the YAML's name for each -> its text
  std::string parameters_name, parameters;       // a JSON file whose "parameters" are the user's; "": none
};
// Of a request: {"name", "text", "schedules": {}, "parameters": {"name", "text"}}, the latter two optional.
absl::StatusOr<PipelineText> pipeline_text_from_json(const Json& json);
Json to_json(const PipelineText& text);
// The library's own of a pipeline_name; kUnimplemented if there is none.
absl::StatusOr<PipelineText> builtin_pipeline(absl::string_view name);
// A user's, read from its file, the schedules that it names and the file of parameters ("": none).
absl::StatusOr<PipelineText> read_pipeline(const std::string& path, const std::string& parameters_path);

// Every defect of the text (no YAML, an unknown or a missing key, a stage with none or two things to run) is
// an error with file and line.
absl::StatusOr<Pipeline> parse_pipeline(absl::string_view name, absl::string_view yaml);

// A stage with every name in it resolved.
struct BoundStage {
  std::string name, passes;
  const EmitterRow* emitter = nullptr;
  std::shared_ptr<const Schedule> schedule;
};
struct BoundPipeline {
  std::string name;
  std::vector<BoundStage> stages;
  // The user's parameters that no stage uses: "params.NAME" -> the file and line that say so.
  std::map<std::string, std::string> unused;
};
// `serves` is what it is wanted for. Unknown passes, emitters, values and schedules, parameters that are
// unbound: errors with file and line, before anything runs.
absl::StatusOr<BoundPipeline> bind_pipeline(const PipelineText& text, absl::string_view serves,
                                            const CompileConfig& config, const Target& target,
                                            const std::string& symbol, mlir::MLIRContext* context);

// Runs the stages. `observe(stage name, module)` is called after each. Errors name the pipeline, the stage
// and what the stage's diagnostics say.
absl::Status run_pipeline(const BoundPipeline& pipeline, mlir::ModuleOp module,
                          const std::function<void(const std::string&, mlir::ModuleOp)>& observe);

std::string pipeline_name(Op op, Backend backend);  // "matmul.cpu"
std::string external_pipeline_name(Op op);          // "matmul.external": whatever the backend

// Registers the passes that pipelines may name; once per process.
void register_passes();

}  // namespace lathe
