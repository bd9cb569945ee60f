// liblathe-compiler.so in this process. It is loaded at the first miss and never unloaded.
#pragma once

#include <atomic>
#include <string>

#include "compile_client/compiler.h"

namespace lathe {

class CompilerLibrary final : public Compiler {
 public:
  // `path` "": liblathe-compiler.so beside this library. Nothing is opened here.
  explicit CompilerLibrary(std::string path);

  // Loads the library (RTLD_NOW | RTLD_LOCAL) and checks its ABI version and codegen id. Loading and compiling run on
  // a separate stack, since LLVM needs more than the stack of a small thread.
  absl::Status load() override;
  absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user) override;
  bool mapped() const override;
  double load_milliseconds() const override { return load_milliseconds_.load(std::memory_order_relaxed); }

  const std::string& path() const { return path_; }

 private:
  absl::Status map();

  const std::string path_;
  std::atomic<lathe_compiler_compile_fn> compile_{nullptr};
  std::atomic<double> load_milliseconds_{0};
};

}  // namespace lathe
