// AArch64 kernels run here: objects and launches are handed to a runner under qemu-aarch64
// (aarch64/runner.c).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "core/args.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe::conformance {

// The path of qemu-aarch64, "" where there is none.
std::string find_qemu();

class Aarch64Process {
 public:
  // `cpu`: one of qemu's models. What it lacks is an illegal instruction.
  explicit Aarch64Process(const std::string& cpu);
  ~Aarch64Process();
  Aarch64Process(const Aarch64Process&) = delete;
  Aarch64Process& operator=(const Aarch64Process&) = delete;

  // Both: "" or what went wrong. A runner that died of a fault is started anew at the next load.
  std::string load(const Artifact& artifact);
  // The loaded artifact's steps. Pointers of `args` are into this process's memory, of which the runner gets
  // copies: every mapping that one of them lies in. What it wrote to those writable here is copied back.
  std::string launch(const ProblemClass& problem, const Dims& dims, int32_t splits, ArgumentBlock args);

 private:
  bool start();
  void stop();
  bool send(const void* data, size_t bytes);
  bool receive(void* data, size_t bytes);
  std::string answer();
  std::string death();

  std::string cpu_;
  Recipe recipe_;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace lathe::conformance
