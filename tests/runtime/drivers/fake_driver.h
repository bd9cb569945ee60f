// GPU drivers that record what they are asked and run nothing: what libcuda.so.1 (fake_cuda.cc) or
// libamdhip64.so (fake_hip.cc) exports, as far as Lathe takes it, with the rules of the real one that a
// caller can break (a context must be current, a launch's stream and function belong to it, nothing unsafe
// while a stream is captured). Tests load the library, get its State, and make any function fail.
//
// Images are text: a line "kernel SYMBOL threads=N shared=N maps=N" for each function, after a first line
// "cubin" or "ptx", or "hsaco" and the instruction set it is for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake_driver {

struct Context {
  int device = 0;
  bool primary = false;
};

struct Stream {
  Context* context = nullptr;
  bool capturing = false, invalidated = false;
};

struct Function {
  struct Module* module = nullptr;
  std::string symbol;
  int threads = 1024, shared = 0, maps = 0, local = 0;
  bool loaded = false;                // nothing lazy is left
  std::map<int, int> set_attributes;  // by cuFuncSetAttribute
};
struct Module {
  Context* context = nullptr;
  std::string image, isa;
  std::map<std::string, Function> functions;
};

struct Attribute {
  int id;
  std::vector<uint8_t> value;  // 64 bytes
};
struct Launch {
  std::string symbol;
  Context* context;
  void* stream;
  unsigned grid[3], block[3], shared;
  std::vector<Attribute> attributes;
  std::vector<uint8_t> parameters;

  template <typename T>
  T parameter(size_t offset) const {
    T value = {};
    if (offset + sizeof value <= parameters.size())
      __builtin_memcpy(&value, parameters.data() + offset, sizeof value);
    return value;
  }
};
struct EncodedMap {
  int type, interleave, swizzle, promotion, fill;
  uint32_t rank;
  void* address;
  std::vector<uint64_t> extents, strides;
  std::vector<uint32_t> box, steps;
};
struct Fill {
  uint64_t address;
  size_t bytes;
  unsigned char value;
  void* stream;
};
struct Allocation {
  Context* context;
  size_t bytes;
  std::unique_ptr<char[]> memory;  // host memory stands for the device's
};
// What a pointer is, for cuPointerGetAttributes (type: CUDA's CUmemorytype).
struct PointerKind {
  unsigned type = 0;
  int device = -1;
  bool reachable = false;
};
// A GPU as HSA knows it.
struct HsaAgent {
  unsigned type = 1, domain = 0, bdf = 0, units = 0, waves = 32, wave = 64;
  std::vector<std::string> isas;
};

struct State {
  State() = default;
  ~State() {
    for (void* stream : streams) delete static_cast<Stream*>(stream);
    for (Module* module : modules) delete module;
  }

  std::mutex mutex;
  std::atomic<bool> quiet{false};  // launches succeed and leave no trace
  int devices = 8, capability = 90, version = 13000;
  std::map<int, int> attributes;  // by number; others answer 0
  std::vector<HsaAgent> agents;   // HIP's
  std::string log, info_log;      // what the JIT writes to its error log and to the other
  std::string linked_image;       // what cuLinkComplete gives

  // What a function answers instead of doing its work: at its next call, or at each.
  std::map<std::string, int> fail_once, fail_always;
  std::map<std::string, int> calls;  // how often each was called

  std::vector<std::unique_ptr<Context>> contexts;
  std::map<int, Context*> primary;
  std::map<int, int> retained;  // by device
  std::set<void*> streams;
  std::set<Module*> modules;
  std::map<uint64_t, Allocation> allocations;
  std::map<const void*, PointerKind> pointers;
  std::vector<Launch> launches;
  std::vector<EncodedMap> maps;
  std::vector<Fill> fills;
  std::vector<std::string> linked;  // PTX handed to the linker
  std::vector<std::pair<int, uint64_t>> link_options;
  int unsafe_in_capture = 0;  // unsafe calls, not relaxed, while some stream was captured
  int mismatched = 0;         // launches into a stream or with a function of another context
};

// --- what the two libraries are made of

State& state();
std::vector<Context*>& stack();  // this thread's contexts
int& capture_mode();             // this thread's
// Enters a call: counts it and answers what it was told to fail with, else 0. The state's mutex is held.
int enter(const char* name);
Context* current();
Context* make_context(int device, bool primary);
Context* primary(int device);

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200,
              kInvalidContext = 201, kNoBinary = 209, kInvalidHandle = 400, kNotFound = 500,
              kCaptureUnsupported = 900, kCaptureImplicit = 906;

// Allocating, loading, waiting: what a capture of any thread forbids unless the calling thread is relaxed.
int check_unsafe();
bool known(void* stream);
bool is_default(void* stream);
// Work on the stream from the current context: 0, or why not.
int check_stream(void* stream);

int create_stream(Stream** stream);
int destroy_stream(Stream* stream);
int stream_capturing(void* stream, int* status);
int load_module(Module** module, const char* image);
int unload_module(Module* module);
int find_function(Function** function, Module* module, const char* name);
int function_attribute(int* value, int attribute, Function* function);
// Where the code has its parameters: the argument block by hand, which is fourteen pointers, twelve 64-bit
// integers and eight values of 32 bits, then maps where ptxas puts them for sm_90a, 64-byte aligned in the
// constant bank whose parameters begin at 528. False where there is none of that index.
bool find_parameter(const Function& function, size_t index, size_t* offset, size_t* bytes);
// Takes the parameters one by one or, of code without maps, in one buffer, and keeps them where the code has
// them.
int record_launch(Launch launch, Function* function, void** parameters, void** extra);
int allocate(uint64_t* memory, size_t bytes);
int release(uint64_t memory);
int copy(void* to, const void* from, size_t bytes, void* stream);
int fill(uint64_t memory, unsigned char value, size_t bytes, void* stream);
PointerKind kind_of(uint64_t pointer);

#define EXPORTED extern "C" __attribute__((visibility("default")))
#define ENTER(name)                                                     \
  const std::lock_guard<std::mutex> lock(::fake_driver::state().mutex); \
  if (const int failure = ::fake_driver::enter(name); failure != 0) return failure
// As ENTER, for what a launch calls: without a lock, a record or an allocation while nothing is to be seen.
#define ENTER_UNLESS_QUIET(name, answer)                                              \
  if (::fake_driver::state().quiet.load(std::memory_order_relaxed)) return answer, 0; \
  ENTER(name)
#define NEEDS_CONTEXT \
  if (::fake_driver::current() == nullptr) return ::fake_driver::kInvalidContext
#define UNSAFE \
  if (const int refused = ::fake_driver::check_unsafe(); refused != 0) return refused

}  // namespace fake_driver
