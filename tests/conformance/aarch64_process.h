// Runs AArch64 kernels on this machine: sends objects and launches to a runner under qemu-aarch64 (aarch64/runner.c).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "core/args.h"
#include "core/artifact.h"
#include "core/problem.h"
#include "core/recipe.h"

namespace lathe::conformance {

// The path of qemu-aarch64; "" if it is not installed.
std::string find_qemu();

class Aarch64Process {
 public:
  // `cpu` is a processor model of qemu. Instructions that it lacks are illegal instructions.
  explicit Aarch64Process(const std::string& cpu);
  ~Aarch64Process();
  Aarch64Process(const Aarch64Process&) = delete;
  Aarch64Process& operator=(const Aarch64Process&) = delete;

  // Both return "" or the error. If a fault ended the runner, the next load starts a new one.
  std::string load(const Artifact& artifact);
  // Runs the steps of the loaded artifact. Pointers in `args` point into this process. The runner gets a copy of every
  // mapping that one of them points into; changes to writable mappings are copied back.
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
