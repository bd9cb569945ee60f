// The state of the emulated HIP: devices, modules, streams, captures, memory. One mutex guards it all; work
// is over when the call that asks for it returns, so that streams are trivially in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/emulator/driver/arena.h"
#include "tests/gpu/emulator/driver/types.h"
#include "tests/gpu/emulator/hip/worker.h"

namespace lathe::emulator::hip {

// How a device of an architecture looks.
struct Board {
  const char* arch;
  const char* isa;
  int units, waves, wave, clock_khz, memory_khz, memory_bits, l2_bytes, lds_bytes;
};
const Board* board_of(const std::string& arch);

struct Module;
struct Function {
  Module* module = nullptr;
  std::string symbol;
  int lds = 0, threads = 0;
};
struct Module {
  uint64_t number = 0;
  std::map<std::string, Function> functions;
};
// Work of a stream, done when called; the answer of a call that asks for it.
using Work = std::function<int()>;
// Of a graph or of an executable made of it.
struct Graph {
  std::vector<Work> nodes;
};
// What is captured of one stream: without events no other joins it.
struct Capture {
  int mode = kCaptureGlobal;
  std::thread::id thread;
  bool invalidated = false;
  Graph graph;
};
struct Stream {
  int device = 0;
  bool non_blocking = false;
  std::unique_ptr<Capture> capture;  // null: none
};

struct State {
  static State& get();
  // 0, or hipErrorNoDevice with the reason in `cause`. Starts the process that runs kernels.
  int initialise();
  bool is_stream(const void* handle) const {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ||
           streams.count(static_cast<Stream*>(const_cast<void*>(handle))) != 0;
  }
  // The stream behind a handle that is_stream; null for a default one.
  static Stream* created(void* handle) {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? nullptr : static_cast<Stream*>(handle);
  }
  // Does the work, or makes it a node of what the stream captures.
  int enqueue(void* stream, Work work);
  // What a call answers that no capture may meet (allocating and freeing): kCaptureUnsupported, and the
  // captures are lost, unless the thread's mode is relaxed or they are another thread's and not global.
  int refuse_unsafe();
  // The same of waiting for a stream, which concerns that stream's capture in any mode.
  int refuse_wait(void* stream);

  // A range of device memory on the host, or null.
  uint8_t* bytes_at(uint64_t address, size_t bytes) const;
  // The allocation that holds the address, or the end.
  std::map<uint64_t, uint64_t>::const_iterator allocation_of(uint64_t address) const;

  std::recursive_mutex mutex;
  bool initialised = false;
  std::string cause;     // why there is no device
  int error = kSuccess;  // sticky: a kernel faulted
  const Board* board = nullptr;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Worker> worker;
  std::map<uint64_t, uint64_t> allocations;  // bytes by address
  std::set<Stream*> streams;
  std::set<Graph*> graphs, executables;
  std::set<Module*> modules;
  uint64_t next_module = 1;
};

int& current_device();  // of this thread
int& capture_mode();    // of this thread

#define EMU_API extern "C" __attribute__((visibility("default"))) int
// What every entry point begins with.
#define EMU_ENTER()                                              \
  State& state = State::get();                                   \
  const std::lock_guard<std::recursive_mutex> lock(state.mutex); \
  if (const int refused = state.initialise(); refused != 0) return refused
#define EMU_ENTER_ALIVE() \
  EMU_ENTER();            \
  if (state.error != kSuccess) return state.error

}  // namespace lathe::emulator::hip
