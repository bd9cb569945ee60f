// An MLIR context with the dialects and interfaces that pipelines use.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "compiler/mlir.h"
#include "core/facts.h"

namespace lathe {

enum class Dialects { kCpu, kSpirv, kAll };  // kAll: what CUDA and ROCm have more
Dialects dialects_of(Backend backend);

// One per compilation: milliseconds to make, nothing shared between threads.
class CompilerContext {
 public:
  explicit CompilerContext(Dialects which = Dialects::kAll);
  absl::StatusOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(const std::string& text);
  mlir::MLIRContext& get() { return context_; }

 private:
  mlir::MLIRContext context_;
};

}  // namespace lathe
