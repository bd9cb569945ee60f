// A pool of compiler processes, one for each thread that compiles, kept between requests.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "compile_client/compiler_process.h"

namespace lathe {

// A request goes to an idle process, or to one that is started for it. There is at most one process per core, but
// at least two, so that a caller need not wait for a background compile. A process has the priority of the threads
// that it serves.
//
// If a process dies, hangs or sends a wrong answer, its request fails and the next request starts another process.
// From the third death in a row on there is a growing pause before that, up to two seconds, so that a compiler that
// always crashes does not overload the machine. A child of a fork starts processes of its own.
class CompilerProcesses final : public Compiler {
 public:
  explicit CompilerProcesses(CompilerProcessOptions options);
  ~CompilerProcesses() override;

  // Starts one process if there is none.
  absl::Status load() override;
  absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user) override;
  bool mapped() const override { return false; }
  // The time that the first process took to start.
  double load_milliseconds() const override { return load_milliseconds_.load(std::memory_order_relaxed); }

 private:
  using Process = std::unique_ptr<CompilerProcess>;
  struct State {
    pid_t owner;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Process> idle;  // under mutex, like all members below
    size_t running = 0;         // all processes, including idle ones
    int deaths = 0;             // since the last answer
    std::chrono::steady_clock::time_point next_start;
  };

  State& state();
  // The maximum number of processes. Looked up at the first request, since making a context must be fast.
  size_t most();
  absl::StatusOr<Process> take(State& state);
  absl::StatusOr<Process> start();
  // Returns a process to the pool. `process` null: it has ended; `died` if that was unexpected.
  void give_back(State& state, Process process, bool died) noexcept;

  const CompilerProcessOptions options_;
  std::atomic<size_t> most_{0};  // 0: not yet known
  std::atomic<State*> state_;
  std::atomic<double> load_milliseconds_{0};
};

}  // namespace lathe
