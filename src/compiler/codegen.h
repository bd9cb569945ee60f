// LLVM dialect -> LLVM IR -> machine code, per backend.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "core/artifact.h"
#include "core/facts.h"

namespace mlir {
class ModuleOp;
}

namespace lathe {

struct MachineCode {
  CodeFormat format = CodeFormat::kElfObject;
  std::string bytes;
};

// Receives the texts of a dump: (file name, text).
using TextSink = std::function<void(const std::string&, const std::string&)>;

// Translates a fully lowered module and generates code for the target. An error when anything is left that is
// not LLVM's (naming the op), or when the object would need a symbol from outside. `dump` may be empty.
absl::StatusOr<MachineCode> generate_code(mlir::ModuleOp module, const Target& target, const TextSink& dump);

// Initialises LLVM's targets; once per process.
void initialize_targets();

}  // namespace lathe
