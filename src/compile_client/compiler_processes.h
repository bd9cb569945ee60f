// As many compiler processes as there are threads that compile, kept between requests.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "compile_client/compiler_process.h"

namespace lathe {

// A request is answered by an idle process or one that is started for it, at most one a core (and at least
// two: a caller need not wait for what is compiled in the background), each at the priority of the threads it
// serves. A process that dies, hangs or lies is an error of the request under way and is replaced at the next
// one: at once, and after the third death in a row with growing pauses (up to two seconds), so that a
// compiler that cannot live does not take the machine. After a fork the child starts processes of its own.
class CompilerProcesses final : public Compiler {
 public:
  explicit CompilerProcesses(CompilerProcessOptions options);
  ~CompilerProcesses() override;

  // Starts one process if none is there.
  absl::Status load() override;
  absl::StatusOr<int> ask(absl::string_view request, lathe_compiler_sink sink, void* user) override;
  bool mapped() const override { return false; }
  // Of the first process that started.
  double load_milliseconds() const override { return load_milliseconds_.load(std::memory_order_relaxed); }

 private:
  using Process = std::unique_ptr<CompilerProcess>;
  struct State {
    pid_t owner;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Process> idle;  // under mutex, as all that follows
    size_t running = 0;         // idle ones included
    int deaths = 0;             // since the last answer
    std::chrono::steady_clock::time_point next_start;
  };

  State& state();
  // How many processes there may be. Looked up at the first request: a context is made in microseconds.
  size_t most();
  absl::StatusOr<Process> take(State& state);
  absl::StatusOr<Process> start();
  // `process` null: it is no more, and `died` if nobody meant it to.
  void give_back(State& state, Process process, bool died) noexcept;

  const CompilerProcessOptions options_;
  std::atomic<size_t> most_{0};  // 0: not looked up yet
  std::atomic<State*> state_;
  std::atomic<double> load_milliseconds_{0};
};

}  // namespace lathe
