// The state of the emulated driver: devices, contexts, modules, streams, memory. One mutex guards it all:
// calls of the API are serialised, and a launch is over when it returns.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/emulator/driver/api.h"
#include "tests/gpu/emulator/driver/arena.h"
#include "tests/gpu/emulator/driver/hooks.h"
#include "tests/gpu/emulator/driver/types.h"
#include "tests/gpu/emulator/ptx/launch.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace lathe::emulator {

struct Context;
struct Module;

struct Function {
  Module* module = nullptr;
  const ptx::Kernel* kernel = nullptr;
  int dynamic_shared_limit = 0;
  bool non_portable_cluster = false;
  std::map<int, int> hints;  // attributes that are kept and mean nothing here
};

struct Module {
  Context* context = nullptr;
  std::unique_ptr<ptx::Module> code;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// What a capture has recorded, in order.
using GraphNodes = std::vector<std::function<int()>>;

struct Stream;
struct Capture {
  Stream* origin = nullptr;
  int mode = kCaptureGlobal;
  std::thread::id thread;
  bool invalidated = false;
  GraphNodes nodes;
  std::set<Stream*> unjoined;  // streams that joined it and whose work the origin has not waited for
  unsigned long long id = 0;
};

struct Stream {
  Context* context = nullptr;
  bool non_blocking = false, is_default = false;
  std::shared_ptr<Capture> capture;
};

struct Event {
  Context* context = nullptr;
  bool timed = true, recorded = false;
  double milliseconds = 0;
  std::weak_ptr<Capture> capture;  // where it was recorded, if that was a capture
  Stream* stream = nullptr;
};

struct Graph {
  GraphNodes nodes;
};

struct Context {
  int device = 0;
  bool primary = false, alive = true;
  int error = kSuccess;  // sticky
  Stream legacy, per_thread;
  std::set<Stream*> streams;
  std::set<Module*> modules;
};

struct Device {
  Context* primary = nullptr;
  int retained = 0;
  ptx::AddressMap memory;
};

// How devices look; read from the environment at cuInit.
// A fault that a test plants: it hits launches of kernels whose name contains the text.
struct Planted {
  enum Kind { kWrong, kHang, kFault } kind = kWrong;
  std::string kernel;
};

struct Options {
  int devices = 1;
  std::string arch = "sm_90a";
  int major = 9, minor = 0;
  ptx::LaunchOptions launch;
  std::vector<Planted> planted;
};

class State {
 public:
  static State& get();

  int initialise();
  // A handle that the caller gave: false if it is none of ours.
  bool is_context(const void* handle) const {
    return contexts.count(static_cast<Context*>(const_cast<void*>(handle))) != 0;
  }
  // The context current in this thread, or null.
  Context* current();
  std::vector<Context*>& stack();  // of this thread
  // Null, 1 and 2 are the default streams of the current context. Null if the handle is none of a living
  // stream.
  Stream* stream(void* handle);
  Context* make_context(int device, bool primary);
  void destroy_context(Context* context);
  void unload(Module* module);

  // Captures that calls of this thread could disturb: 0, or the error that answers an unsafe call, which
  // invalidates them.
  int check_unsafe();
  // An operation that a stream executes: recorded if the stream is captured, else executed now.
  int enqueue(Stream* stream, std::function<int()> work);
  // Waiting for a stream, or asking how far it is.
  int check_wait(Stream* stream);

  std::recursive_mutex mutex;
  bool initialised = false;
  Options options;
  std::vector<Device> devices;
  std::set<Context*> contexts;
  std::set<Event*> events;
  std::set<Graph*> graphs, executables;
  std::vector<std::shared_ptr<Capture>> captures;  // active ones
  unsigned long long next_capture = 1;
  std::unique_ptr<Arena> arena;
  struct Allocation {
    uint64_t bytes = 0;
    int device = 0;  // of pinned host memory: where it was asked for
    bool host = false;
  };
  std::map<uint64_t, Allocation> allocations;  // by address
  // The allocation that holds the address: its start, or 0.
  uint64_t allocation_of(uint64_t address) const;

  // Hooks.
  struct Failure {
    int result = 0, after = 0;
    bool always = false;
  };
  std::map<std::string, Failure> failures;
  std::map<std::string, uint64_t> calls;
  bool recording = false;
  std::vector<EmuLaunch> launches;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> launch_parameters;
  std::string last_fault;
};

// The capture mode of this thread (cuThreadExchangeStreamCaptureMode).
int& thread_capture_mode();

// What every entry point begins with: takes the lock, counts, and answers injected failures.
class Call {
 public:
  enum Need : unsigned {
    kNothing = 0,
    kInitialised = 1,
    kContext = 3,  // a current context, without a sticky error
    kUnsafe = 4,   // must not happen beside a capture
  };
  Call(const char* name, unsigned need);
  // 0, or what the entry point must answer at once.
  int refused() const { return refused_; }
  State& state() { return state_; }
  Context* context() { return context_; }
  Device& device() { return state_.devices[static_cast<size_t>(context_->device)]; }

 private:
  State& state_;
  std::lock_guard<std::recursive_mutex> lock_;
  Context* context_ = nullptr;
  int refused_ = kSuccess;
};

// An entry point of the library.
#define EMU_API extern "C" __attribute__((visibility("default"))) int
#define EMU_CALL(name, need)                                         \
  ::lathe::emulator::Call call(name, ::lathe::emulator::Call::need); \
  if (call.refused() != 0) return call.refused()

// One launch of a function in a context (launch.cc).
struct LaunchRequest {
  Function* function = nullptr;
  ptx::LaunchConfig config;
  std::vector<uint8_t> parameters;
  Context* context = nullptr;
  void* stream = nullptr;
  bool programmatic = false;
};
int run_launch(State& state, const LaunchRequest& request);

}  // namespace lathe::emulator
