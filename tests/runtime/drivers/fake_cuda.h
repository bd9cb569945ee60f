// A CUDA driver that records what it is asked and runs nothing: what libcuda.so.1 exports, as far as Lathe
// takes it, with the rules of the real one that a caller can break (a context must be current, a launch's
// stream and function belong to it, nothing unsafe while a stream is captured). Tests load the library, get
// its State, and make any function fail.
//
// Images are text: a line "kernel SYMBOL threads=N shared=N maps=N" for each function, after a first line
// "cubin" or "ptx".
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake_cuda {

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
  int threads = 1024, shared = 0, maps = 0;
  bool loaded = false;                // nothing lazy is left
  std::map<int, int> set_attributes;  // by cuFuncSetAttribute
};
struct Module {
  Context* context = nullptr;
  std::string image;
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
// What a pointer is, for cuPointerGetAttributes.
struct PointerKind {
  unsigned type = 0;
  int device = -1;
  bool reachable = false;
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
  std::string log;                // what the JIT writes to its error log
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

}  // namespace fake_cuda
