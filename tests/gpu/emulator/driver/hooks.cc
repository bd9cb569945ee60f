#include "tests/gpu/emulator/driver/hooks.h"

#include <cstring>

#include "tests/gpu/emulator/driver/state.h"

using lathe::emulator::State;

#define EMU_HOOK extern "C" __attribute__((visibility("default")))

EMU_HOOK void emu_fail_next(const char* function, int result, int after) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.failures[function] = {result, after, false};
}

EMU_HOOK void emu_fail_always(const char* function, int result) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  if (result == 0) {
    state.failures.erase(function);
  } else {
    state.failures[function] = {result, 0, true};
  }
}

EMU_HOOK uint64_t emu_call_count(const char* function) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  const auto it = state.calls.find(function);
  return it == state.calls.end() ? 0 : it->second;
}

EMU_HOOK void emu_record(int on) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.recording = on != 0;
  state.launches.clear();
  state.launch_parameters.clear();
}

EMU_HOOK size_t emu_launch_count(void) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  return state.launches.size();
}

EMU_HOOK int emu_get_launch(size_t index, EmuLaunch* launch) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  if (index >= state.launches.size()) return 0;
  *launch = state.launches[index];
  return 1;
}

EMU_HOOK int emu_schedule(uint64_t seed, const char* async) {
  using lathe::ptx::AsyncPolicy;
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  static constexpr const char* kNames[] = {"late", "early", "random"};
  for (int policy = 0; async != nullptr && policy < 3; ++policy) {
    if (std::strcmp(async, kNames[policy]) != 0) continue;
    state.options.launch.async = static_cast<AsyncPolicy>(policy);
    async = nullptr;
  }
  if (async != nullptr) return 0;
  state.options.launch.seed = seed;
  return 1;
}

EMU_HOOK const char* emu_last_fault(void) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  return state.last_fault.c_str();
}

EMU_HOOK uint64_t emu_allocated_bytes(void) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  return state.arena == nullptr ? 0 : state.arena->used();
}

EMU_HOOK void emu_reset(void) {
  State& state = State::get();
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  state.failures.clear();
  state.calls.clear();
  state.last_fault.clear();
  emu_record(0);
}
