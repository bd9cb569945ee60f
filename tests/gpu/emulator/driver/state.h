// The state of the emulated driver: devices, contexts, modules, streams, memory. One mutex guards all of it, so API
// calls are serialised. A launch is complete when it returns.
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
  std::map<int, int> hints;  // attributes that are stored but have no effect
};

struct Module {
  Context* context = nullptr;
  std::unique_ptr<ptx::Module> code;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// The recorded work of a capture, in order.
using GraphNodes = std::vector<std::function<int()>>;

struct Stream;
struct Capture {
  Stream* origin = nullptr;
  int mode = kCaptureGlobal;
  std::thread::id thread;
  bool invalidated = false;
  GraphNodes nodes;
  std::set<Stream*> unjoined;  // streams that joined and that the origin has not waited for yet
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
  std::weak_ptr<Capture> capture;  // the capture it was recorded in, if any
  Stream* stream = nullptr;
};

struct Graph {
  GraphNodes nodes;
};

struct Context {
  int device = 0;
  bool primary = false, alive = true;
  int error = kSuccess;  // sticky error
  Stream legacy, per_thread;
  std::set<Stream*> streams;
  std::set<Module*> modules;
};

struct Device {
  Context* primary = nullptr;
  int retained = 0;
  ptx::AddressMap memory;
};

// A fault planted for a test: it affects launches of kernels whose name contains the text.
struct Planted {
  enum Kind { kWrong, kHang, kFault } kind = kWrong;
  std::string kernel;
};

// The properties of the devices; read from the environment by cuInit.
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
  // False for a handle that this driver did not create.
  bool is_context(const void* handle) const {
    return contexts.count(static_cast<Context*>(const_cast<void*>(handle))) != 0;
  }
  // The current context of this thread, or null.
  Context* current();
  std::vector<Context*>& stack();  // the context stack of this thread
  // Handles 0, 1 and 2 are the default streams of the current context. Null if the handle is not a live stream.
  Stream* stream(void* handle);
  Context* make_context(int device, bool primary);
  void destroy_context(Context* context);
  void unload(Module* module);

  // Called before an operation that a capture forbids. If this thread may disturb captures, invalidates them and
  // returns the error, else 0.
  int check_unsafe();
  // Work of a stream: recorded if the stream is in capture, else executed now.
  int enqueue(Stream* stream, std::function<int()> work);
  // Called before waiting for a stream or querying its progress.
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
    int device = 0;  // for pinned host memory: the device of the requesting context
    bool host = false;
  };
  std::map<uint64_t, Allocation> allocations;  // by address
  // The start of the allocation that contains the address, or 0.
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

// The start of every entry point: takes the lock, counts the call and returns injected failures.
class Call {
 public:
  enum Need : unsigned {
    kNothing = 0,
    kInitialised = 1,
    kContext = 3,  // a current context, without a sticky error
    kUnsafe = 4,   // forbidden during a capture
  };
  Call(const char* name, unsigned need);
  // 0, or what the entry point must return at once.
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

// Declares an entry point of the library.
#define EMU_API extern "C" __attribute__((visibility("default"))) int
#define EMU_CALL(name, need)                                         \
  ::lathe::emulator::Call call(name, ::lathe::emulator::Call::need); \
  if (call.refused() != 0) return call.refused()

// One launch of a function in a context; see launch.cc.
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
