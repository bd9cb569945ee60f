// Fake GPU drivers that record their calls and run nothing. They export the functions of libcuda.so.1
// (fake_cuda.cc) or libamdhip64.so (fake_hip.cc) that Lathe uses, and check the rules of a real driver: a
// context must be current, a launch's stream and function must belong to it, and no unsafe call may be made
// while a stream is captured. Tests load the library, get its State, and can make any function fail.
//
// A code image is text. The first line is "cubin", "ptx", or "hsaco" and an instruction set. Then each
// function has a line "kernel SYMBOL threads=N shared=N maps=N".
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
  bool loaded = false;                // lazy loading is done
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
// The result of cuPointerGetAttributes for a pointer (type: CUDA's CUmemorytype).
struct PointerKind {
  unsigned type = 0;
  int device = -1;
  bool reachable = false;
};
// A GPU in HSA's view.
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
  std::map<int, int> attributes;  // by number; all others are 0
  std::vector<HsaAgent> agents;   // for HIP
  std::string log, info_log;      // what the JIT writes to its error and info logs
  std::string linked_image;       // what cuLinkComplete returns

  // The results that a function returns instead of doing its work: at its next call, or at each call.
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
  int unsafe_in_capture = 0;  // unsafe calls outside relaxed mode during a capture
  int mismatched = 0;         // launches with a stream or function of another context
};

// Functions that the two fake libraries are made of.

State& state();
std::vector<Context*>& stack();  // this thread's contexts
int& capture_mode();             // this thread's
// Enters a call: counts it and returns the result that it must fail with, or 0. Call with the mutex held.
int enter(const char* name);
Context* current();
Context* make_context(int device, bool primary);
Context* primary(int device);

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200,
              kInvalidContext = 201, kNoBinary = 209, kInvalidHandle = 400, kNotFound = 500,
              kCaptureUnsupported = 900, kCaptureImplicit = 906;

// For allocating, loading and waiting: fails while any thread captures, unless the calling thread is relaxed.
int check_unsafe();
bool known(void* stream);
bool is_default(void* stream);
// Checks that the stream belongs to the current context. Returns 0 or the error.
int check_stream(void* stream);

int create_stream(Stream** stream);
int destroy_stream(Stream* stream);
int stream_capturing(void* stream, int* status);
int load_module(Module** module, const char* image);
int unload_module(Module* module);
int find_function(Function** function, Module* module, const char* name);
int function_attribute(int* value, int attribute, Function* function);
// The position of a parameter in the code: the argument block (14 pointers, 12 integers of 64 bits, 8 values
// of 32 bits), then the maps where ptxas puts them for sm_90a: aligned to 64 bytes in the constant bank, in
// which parameters start at 528. False if there is no such index.
bool find_parameter(const Function& function, size_t index, size_t* offset, size_t* bytes);
// Records a launch. Takes the parameters one by one or, for code without maps, in one buffer, and stores them
// at their positions in the code.
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
// As ENTER, for functions that a launch calls. If `quiet` is set: no lock, no record, no allocation.
#define ENTER_UNLESS_QUIET(name, answer)                                              \
  if (::fake_driver::state().quiet.load(std::memory_order_relaxed)) return answer, 0; \
  ENTER(name)
#define NEEDS_CONTEXT \
  if (::fake_driver::current() == nullptr) return ::fake_driver::kInvalidContext
#define UNSAFE \
  if (const int refused = ::fake_driver::check_unsafe(); refused != 0) return refused

}  // namespace fake_driver
