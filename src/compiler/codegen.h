// LLVM dialect -> LLVM IR -> machine code, per backend.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/artifact.h"
#include "core/facts.h"

namespace llvm {
class Module;
}
namespace mlir {
class ModuleOp;
}

namespace lathe {

struct MachineCode {
  CodeFormat format = CodeFormat::kElfObject;
  std::string bytes;
};

// Milliseconds by stage, kept in the artifact's metadata.
class StageTimes {
 public:
  // Books the time since the last call (or construction) under `name`.
  void lap(const std::string& name);
  const std::vector<std::pair<std::string, double>>& milliseconds() const { return laps_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> laps_;
};

// Receives the texts of a dump: (file name, text).
using TextSink = std::function<void(const std::string&, const std::string&)>;

// Translates a fully lowered module and generates code for the target. An error when anything is left that is
// not LLVM's (naming the op), or when the object would need a symbol from outside. `dump` may be empty.
absl::StatusOr<MachineCode> generate_code(mlir::ModuleOp module, const Target& target, const TextSink& dump,
                                          StageTimes* times);

// Whether a module of LLVM IR alone becomes code for a target's instructions and, a CPU's, needs no symbol
// from outside. The module is used up. Throws where LLVM would end the process: without the instruction of an
// intrinsic.
absl::Status check_code(llvm::Module& module, const Target& target);
// LLVM's name of a CPU's, CUDA's or ROCm's target: "x86_64-unknown-linux-gnu".
std::string triple_of(const Target& target);

// Initialises LLVM's targets; once per process.
void initialize_targets();

}  // namespace lathe
