// An MLIR context with the dialects and interfaces that the pipelines use.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/mlir.h"
#include "core/facts.h"

namespace lathe {

enum class Dialects { kCpu, kSpirv, kAll };  // kAll: those of CUDA and ROCm too
Dialects dialects_of(Backend backend);

// Make one per compilation. It takes milliseconds to create and shares nothing with other threads.
class CompilerContext {
 public:
  explicit CompilerContext(Dialects which = Dialects::kAll);
  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(const std::string& text);
  mlir::MLIRContext& get() { return context_; }

 private:
  mlir::MLIRContext context_;
};

}  // namespace lathe
