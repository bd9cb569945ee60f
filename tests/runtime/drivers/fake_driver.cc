#include "fake_driver.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace fake_driver {
namespace {

State* the_state = new State;

bool parse_image(const std::string& image, Module* module) {
  std::istringstream lines(image);
  std::string line;
  if (!std::getline(lines, line)) return false;
  if (line.rfind("hsaco ", 0) == 0)
    module->isa = line.substr(6);
  else if (line != "cubin" && line != "ptx")
    return false;
  while (std::getline(lines, line)) {
    Function f;
    char symbol[200];
    if (std::sscanf(line.c_str(), "kernel %199s threads=%d shared=%d maps=%d local=%d", symbol, &f.threads,
                    &f.shared, &f.maps, &f.local) < 4)
      return false;
    f.symbol = symbol;
    f.module = module;
    module->functions[symbol] = f;
  }
  return true;
}

}  // namespace

State& state() { return *the_state; }
std::vector<Context*>& stack() {
  static thread_local std::vector<Context*> contexts;
  return contexts;
}
int& capture_mode() {
  static thread_local int mode = 0;
  return mode;
}

int enter(const char* name) {
  State& s = state();
  ++s.calls[name];
  if (const auto always = s.fail_always.find(name); always != s.fail_always.end()) return always->second;
  const auto once = s.fail_once.find(name);
  if (once == s.fail_once.end()) return 0;
  const int result = once->second;
  s.fail_once.erase(once);
  return result;
}

Context* current() { return stack().empty() ? nullptr : stack().back(); }

Context* make_context(int device, bool primary) {
  auto made = std::make_unique<Context>();
  made->device = device;
  made->primary = primary;
  state().contexts.push_back(std::move(made));
  return state().contexts.back().get();
}

Context* primary(int device) {
  Context*& context = state().primary[device];
  if (context == nullptr) context = make_context(device, true);
  return context;
}

int check_unsafe() {
  State& s = state();
  if (capture_mode() == 2) return 0;
  for (void* handle : s.streams) {
    auto* stream = static_cast<Stream*>(handle);
    if (!stream->capturing) continue;
    stream->invalidated = true;
    ++s.unsafe_in_capture;
    return kCaptureUnsupported;
  }
  return 0;
}

bool is_default(void* stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }
bool known(void* stream) { return is_default(stream) || state().streams.count(stream) != 0; }

int check_stream(void* stream) {
  State& s = state();
  if (!known(stream)) return kInvalidHandle;
  if (!is_default(stream) && static_cast<Stream*>(stream)->context != current()) {
    ++s.mismatched;
    return kInvalidHandle;
  }
  return 0;
}

int create_stream(Stream** stream) {
  NEEDS_CONTEXT;
  UNSAFE;
  *stream = new Stream{current()};
  state().streams.insert(*stream);
  return 0;
}

int destroy_stream(Stream* stream) {
  NEEDS_CONTEXT;
  if (state().streams.erase(stream) == 0) return kInvalidHandle;
  delete stream;
  return 0;
}

int stream_capturing(void* stream, int* status) {
  NEEDS_CONTEXT;
  if (!known(stream)) return kInvalidHandle;
  *status = 0;
  if (!is_default(stream)) {
    const auto* s = static_cast<Stream*>(stream);
    *status = s->invalidated ? 2 : s->capturing ? 1 : 0;
    return 0;
  }
  if (reinterpret_cast<uintptr_t>(stream) == 2) return 0;
  for (void* handle : state().streams) {
    const auto* s = static_cast<Stream*>(handle);
    if (s->capturing && s->context == current()) return kCaptureImplicit;
  }
  return 0;
}

int load_module(Module** module, const char* image) {
  NEEDS_CONTEXT;
  UNSAFE;
  auto made = std::make_unique<Module>();
  made->context = current();
  made->image = image;
  if (!parse_image(made->image, made.get())) return kInvalidImage;
  state().modules.insert(made.get());
  *module = made.release();
  return 0;
}

int unload_module(Module* module) {
  NEEDS_CONTEXT;
  UNSAFE;
  if (module->context != current()) return kInvalidHandle;
  if (state().modules.erase(module) == 0) return kInvalidHandle;
  delete module;
  return 0;
}

int find_function(Function** function, Module* module, const char* name) {
  NEEDS_CONTEXT;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = &found->second;
  return 0;
}

int function_attribute(int* value, int attribute, Function* function) {
  NEEDS_CONTEXT;
  function->loaded = true;
  switch (attribute) {
    case 0: return *value = function->threads, 0;
    case 1: return *value = function->shared, 0;
    case 3: return *value = function->local, 0;
    default: return kInvalidValue;
  }
}

bool find_parameter(const Function& function, size_t index, size_t* offset, size_t* bytes) {
  constexpr size_t kBase = 528, kAlignment = 64;
  if (index < 42) return *offset = index * 8, *bytes = 8, true;
  if (index < 50) return *offset = 336 + (index - 42) * 4, *bytes = 4, true;
  const size_t first = (kBase + 368 + kAlignment - 1) / kAlignment * kAlignment - kBase;
  *offset = first + (index - 50) * 128, *bytes = 128;
  return index < 50 + static_cast<size_t>(function.maps);
}

int record_launch(Launch launch, Function* function, void** parameters, void** extra) {
  NEEDS_CONTEXT;
  if (const int wrong = check_stream(launch.stream); wrong != 0) return wrong;
  if (function->module->context != current()) {
    ++state().mismatched;
    return kInvalidHandle;
  }
  if ((parameters == nullptr) == (extra == nullptr)) return kInvalidValue;
  // A buffer does not say where maps are, so a kernel with maps cannot use one.
  if (extra != nullptr && function->maps != 0) return kInvalidValue;
  launch.symbol = function->symbol;
  launch.context = current();
  const uint8_t* buffer = nullptr;
  size_t bytes = 0, offset = 0;
  for (size_t i = 0; parameters != nullptr && find_parameter(*function, i, &offset, &bytes); ++i) {
    const auto* from = static_cast<const uint8_t*>(parameters[i]);
    launch.parameters.resize(offset);
    launch.parameters.insert(launch.parameters.end(), from, from + bytes);
  }
  for (void** e = extra; e != nullptr && *e != nullptr; e += 2) {
    if (*e == reinterpret_cast<void*>(1)) buffer = static_cast<const uint8_t*>(e[1]);
    if (*e == reinterpret_cast<void*>(2)) bytes = *static_cast<size_t*>(e[1]);
  }
  if (buffer != nullptr) launch.parameters.assign(buffer, buffer + bytes);
  state().launches.push_back(std::move(launch));
  return 0;
}

int allocate(uint64_t* memory, size_t bytes) {
  NEEDS_CONTEXT;
  UNSAFE;
  if (bytes == 0) return kInvalidValue;
  if (bytes > size_t{1} << 30) return kOutOfMemory;
  auto block = std::unique_ptr<char[]>(new char[bytes + 256]);
  std::memset(block.get(), 0xab,
              std::min(bytes, size_t{1} << 20) + 256);  // so that nothing is zero by chance
  *memory = (reinterpret_cast<uint64_t>(block.get()) + 255) / 256 * 256;
  state().allocations[*memory] = Allocation{current(), bytes, std::move(block)};
  return 0;
}

int release(uint64_t memory) {
  NEEDS_CONTEXT;
  UNSAFE;
  return state().allocations.erase(memory) == 1 ? 0 : kInvalidValue;
}

int copy(void* to, const void* from, size_t bytes, void* stream) {
  NEEDS_CONTEXT;
  if (const int wrong = check_stream(stream); wrong != 0) return wrong;
  std::memcpy(to, from, bytes);
  return 0;
}

int fill(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  NEEDS_CONTEXT;
  if (const int wrong = check_stream(stream); wrong != 0) return wrong;
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  state().fills.push_back({memory, bytes, value, stream});
  return 0;
}

PointerKind kind_of(uint64_t pointer) {
  const auto found = state().pointers.find(reinterpret_cast<const void*>(pointer));
  return found != state().pointers.end() ? found->second : PointerKind();
}

}  // namespace fake_driver

using namespace fake_driver;

// Resets the driver to its initial state.
EXPORTED State* fake_driver_reset() {
  delete the_state;
  the_state = new State;
  stack().clear();
  capture_mode() = 0;
  return the_state;
}
EXPORTED Context* fake_driver_make_context(int device) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return make_context(device, false);
}
EXPORTED std::vector<Context*>* fake_driver_context_stack() { return &stack(); }
EXPORTED int fake_driver_capture_mode() { return capture_mode(); }
// Destroys the stream and gives its handle to a new stream of `context`.
EXPORTED void fake_driver_reuse_stream(Stream* stream, Context* context) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  *stream = Stream{context};
}
