// Code generation: from MLIR's LLVM dialect through LLVM IR to machine code.
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

// The time of each stage in milliseconds, for the artifact's metadata.
class StageTimes {
 public:
  // Records the time since the previous call (or the construction) under `name`.
  void lap(const std::string& name);
  const std::vector<std::pair<std::string, double>>& milliseconds() const { return laps_; }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::vector<std::pair<std::string, double>> laps_;
};

// Receives one text of a dump: (file name, text).
using TextSink = std::function<void(const std::string&, const std::string&)>;

// Translates a fully lowered module and generates code for the target. Fails if an op remains that cannot be
// translated to LLVM IR (the error names it), or if the object would need an external symbol. `dump` may be
// empty.
absl::StatusOr<MachineCode> generate_code(mlir::ModuleOp module, const Target& target, const TextSink& dump,
                                          StageTimes* times);

// Checks that LLVM can generate code for a module of LLVM IR and, on a CPU, that the code needs no external
// symbol. Modifies the module. Throws on LLVM's fatal errors, for example if the target lacks the instruction
// of an intrinsic.
absl::Status check_code(llvm::Module& module, const Target& target);
// LLVM's target triple, such as "x86_64-unknown-linux-gnu".
std::string triple_of(const Target& target);

// Initialises LLVM's targets once per process.
void initialize_targets();

}  // namespace lathe
