#include "compile_client/compiler_processes.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/status.h"
#include "runtime/cpu/cpu_facts.h"

namespace lathe {
namespace {

using Clock = std::chrono::steady_clock;

// The pauses of callers that wait one after the other add up to at most this.
constexpr std::chrono::seconds kMostPause(2);

Clock::duration pause_after(int deaths) {
  constexpr int kFree = 2, kMostDoublings = 5;
  if (deaths <= kFree) return {};
  return std::chrono::milliseconds(62) * (1 << std::min(deaths - kFree, kMostDoublings));
}

}  // namespace

CompilerProcesses::CompilerProcesses(CompilerProcessOptions options)
    : options_(std::move(options)), state_(new State{getpid(), {}, {}, {}, 0, 0, {}}) {}

CompilerProcesses::~CompilerProcesses() {
  State* const state = state_.load(std::memory_order_acquire);
  // Not in a child of a fork: its locks may be held by threads that the child does not have.
  if (state->owner == getpid()) delete state;
}

// After a fork the child does not touch the parent's state: its sockets belong to processes of the parent.
CompilerProcesses::State& CompilerProcesses::state() {
  State* seen = state_.load(std::memory_order_acquire);
  while (seen->owner != getpid()) {
    auto own = std::make_unique<State>();
    own->owner = getpid();
    if (state_.compare_exchange_strong(seen, own.get(), std::memory_order_acq_rel)) return *own.release();
  }
  return *seen;
}

absl::StatusOr<CompilerProcesses::Process> CompilerProcesses::start() {
  const auto begin = Clock::now();
  absl::StatusOr<Process> process = CompilerProcess::start(options_);
  const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
  double unset = 0;
  if (process.ok())
    load_milliseconds_.compare_exchange_strong(unset, took.count(), std::memory_order_relaxed);
  return process;
}

size_t CompilerProcesses::most() {
  size_t most = most_.load(std::memory_order_relaxed);
  if (most == 0) {
    most = static_cast<size_t>(std::max(2, allowed_processors()));
    most_.store(most, std::memory_order_relaxed);
  }
  return most;
}

absl::StatusOr<CompilerProcesses::Process> CompilerProcesses::take(State& state) {
  const size_t most = this->most();
  std::vector<Process> ended;  // destroyed after the lock, since ending a process takes time
  Clock::duration pause = {};
  {
    std::unique_lock<std::mutex> lock(state.mutex);
    const ThreadPriority priority = thread_priority();
    state.idle.reserve(most);  // so that give_back cannot fail
    ended.reserve(most);
    for (;;) {
      while (!state.idle.empty()) {
        const auto fits = [&](const Process& p) { return p->priority() == priority; };
        auto found = std::find_if(state.idle.rbegin(), state.idle.rend(), fits);
        // If no process may be added, one of another priority is ended to make room.
        if (found == state.idle.rend() && state.running < most) break;
        if (found == state.idle.rend()) found = state.idle.rbegin();
        Process process = std::move(*found);
        state.idle.erase(std::next(found).base());
        if (fits(process) && process->is_waiting()) return process;
        ended.push_back(std::move(process));
        --state.running;
      }
      if (state.running < most) break;
      state.changed.wait(lock);
    }
    ++state.running;
    const Clock::time_point now = Clock::now();
    if (state.next_start > now) pause = std::min<Clock::duration>(state.next_start - now, kMostPause);
    state.next_start = std::max(state.next_start, now) + pause_after(state.deaths);
  }
  std::this_thread::sleep_for(pause);
  absl::StatusOr<Process> process = absl::InternalError("");
  try {
    process = start();
  } catch (...) {
    give_back(state, nullptr, /*died=*/false);
    throw;
  }
  if (!process.ok()) give_back(state, nullptr, /*died=*/absl::IsAborted(process.status()));
  return process;
}

void CompilerProcesses::give_back(State& state, Process process, bool died) noexcept {
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (process != nullptr) {
      state.deaths = 0;
      state.next_start = {};
      state.idle.push_back(std::move(process));
    } else {
      --state.running;
      state.deaths += died;
    }
  }
  state.changed.notify_one();
}

absl::Status CompilerProcesses::load() {
  State& own = state();
  {
    const std::lock_guard<std::mutex> lock(own.mutex);
    if (own.running > 0) return absl::OkStatus();
  }
  LATHE_ASSIGN_OR_RETURN(Process process, take(own));
  give_back(own, std::move(process), /*died=*/false);
  return absl::OkStatus();
}

absl::StatusOr<int> CompilerProcesses::ask(absl::string_view request, lathe_compiler_sink sink, void* user) {
  State& own = state();
  for (;;) {
    LATHE_ASSIGN_OR_RETURN(Process process, take(own));
    absl::StatusOr<int> answer = absl::InternalError("");
    try {
      answer = process->ask(request, sink, user);
    } catch (...) {
      process = nullptr;  // only a part of its answer was read
      give_back(own, nullptr, /*died=*/false);
      throw;
    }
    if (answer.ok()) {
      give_back(own, std::move(process), /*died=*/false);
      return answer;
    }
    process = nullptr;
    const bool left = absl::IsNotFound(answer.status());
    give_back(own, nullptr, /*died=*/!left);
    if (!left) return answer;
  }
}

}  // namespace lathe
