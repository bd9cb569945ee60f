// The state of the emulated HIP runtime: devices, modules, streams, captures, memory. One mutex guards all of it. Work
// is complete when the call that requests it returns, so every stream is in order.
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

// The properties of a device.
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
// Work of a stream; calling it does the work and returns the result of the API call.
using Work = std::function<int()>;
// A graph or an executable graph.
struct Graph {
  std::vector<Work> nodes;
};
// The capture of one stream. Events are not emulated, so no other stream can join it.
struct Capture {
  int mode = kCaptureGlobal;
  std::thread::id thread;
  bool invalidated = false;
  Graph graph;
};
struct Stream {
  int device = 0;
  bool non_blocking = false;
  std::unique_ptr<Capture> capture;  // null: not capturing
};

struct State {
  static State& get();
  // Starts the process that runs kernels. 0, or hipErrorNoDevice with the reason in `cause`.
  int initialise();
  bool is_stream(const void* handle) const {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ||
           streams.count(static_cast<Stream*>(const_cast<void*>(handle))) != 0;
  }
  // The stream object behind a handle for which is_stream() is true; null for a default stream.
  static Stream* created(void* handle) {
    return reinterpret_cast<uintptr_t>(handle) <= 2 ? nullptr : static_cast<Stream*>(handle);
  }
  // Does the work now, or records it if the stream is capturing.
  int enqueue(void* stream, Work work);
  // Called before allocating or freeing, which captures forbid. Returns kCaptureUnsupported and invalidates the
  // captures. Exceptions: this thread's mode is relaxed, or the capture belongs to another thread and is not global.
  int refuse_unsafe();
  // Called before waiting for a stream. Forbidden, in any mode, while that stream is capturing.
  int refuse_wait(void* stream);

  // The host address of a range of device memory, or null.
  uint8_t* bytes_at(uint64_t address, size_t bytes) const;
  // The allocation that contains the address, or end().
  std::map<uint64_t, uint64_t>::const_iterator allocation_of(uint64_t address) const;

  std::recursive_mutex mutex;
  bool initialised = false;
  std::string cause;     // why there is no device
  int error = kSuccess;  // sticky error: a kernel faulted
  const Board* board = nullptr;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Worker> worker;
  std::map<uint64_t, uint64_t> allocations;  // bytes by address
  std::set<Stream*> streams;
  std::set<Graph*> graphs, executables;
  std::set<Module*> modules;
  uint64_t next_module = 1;
};

int& current_device();  // of the calling thread
int& capture_mode();    // of the calling thread

#define EMU_API extern "C" __attribute__((visibility("default"))) int
// The start of every entry point.
#define EMU_ENTER()                                              \
  State& state = State::get();                                   \
  const std::lock_guard<std::recursive_mutex> lock(state.mutex); \
  if (const int refused = state.initialise(); refused != 0) return refused
#define EMU_ENTER_ALIVE() \
  EMU_ENTER();            \
  if (state.error != kSuccess) return state.error

}  // namespace lathe::emulator::hip
