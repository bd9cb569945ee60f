#include "tests/gpu/emulator/driver/state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_split.h"

namespace lathe::emulator {

State& State::get() {
  static State& state = *new State;  // never destroyed: calls may still arrive at exit
  return state;
}

int& thread_capture_mode() {
  thread_local int mode = kCaptureGlobal;
  return mode;
}

std::vector<Context*>& State::stack() {
  thread_local std::vector<Context*> contexts;
  return contexts;
}

Context* State::current() { return stack().empty() ? nullptr : stack().back(); }

namespace {

// Parses "wrong:TEXT,hang:TEXT,fault:TEXT". False for any other form.
bool read_planted(const std::string& text, std::vector<Planted>* planted) {
  for (const absl::string_view one : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(one, absl::MaxSplits(':', 1));
    if (parts.size() != 2 || parts[1].empty()) return false;
    Planted p;
    p.kernel = parts[1];
    if (parts[0] == "wrong")
      p.kind = Planted::kWrong;
    else if (parts[0] == "hang")
      p.kind = Planted::kHang;
    else if (parts[0] == "fault")
      p.kind = Planted::kFault;
    else
      return false;
    planted->push_back(p);
  }
  return true;
}

}  // namespace

// Reads LATHE_EMULATOR_DEVICES, _ARCH, _SEED, _ASYNC and _PLANT.
int State::initialise() {
  if (initialised) return kSuccess;
  const auto text = [](const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? otherwise : value);
  };
  const auto refuse = [](const char* name, const std::string& value) {
    std::fprintf(stderr, "cuda emulator: the value of %s=%s is not valid\n", name, value.c_str());
    return kInvalidValue;
  };
  const std::string count = text("LATHE_EMULATOR_DEVICES", "1");
  options.devices = std::atoi(count.c_str());
  if (options.devices < 0 || options.devices > 64) return refuse("LATHE_EMULATOR_DEVICES", count);
  options.arch = text("LATHE_EMULATOR_ARCH", "sm_90a");
  char suffix = 0;
  int number = 0;
  if (std::sscanf(options.arch.c_str(), "sm_%d%c", &number, &suffix) < 1 || number < 50 ||
      (suffix != 0 && suffix != 'a')) {
    return refuse("LATHE_EMULATOR_ARCH", options.arch);
  }
  options.major = number / 10;
  options.minor = number % 10;
  options.launch.seed = std::strtoull(text("LATHE_EMULATOR_SEED", "1").c_str(), nullptr, 0);
  const std::string async = text("LATHE_EMULATOR_ASYNC", "late");
  if (emu_schedule(options.launch.seed, async.c_str()) == 0) return refuse("LATHE_EMULATOR_ASYNC", async);
  const std::string plant = text("LATHE_EMULATOR_PLANT", "");
  if (!read_planted(plant, &options.planted)) return refuse("LATHE_EMULATOR_PLANT", plant);
  arena = Arena::create();
  if (arena == nullptr) return kOutOfMemory;
  devices = std::vector<Device>(static_cast<size_t>(options.devices));
  initialised = true;
  int shared = 0;
  if (options.devices > 0 && cuDeviceGetAttribute(&shared, kMaxSharedOptin, 0) == kSuccess)
    options.launch.shared_limit = static_cast<uint32_t>(shared);
  return options.devices == 0 ? kNoDevice : kSuccess;
}

Context* State::make_context(int device, bool primary) {
  auto* context = new Context;
  context->device = device;
  context->primary = primary;
  for (Stream* stream : {&context->legacy, &context->per_thread}) {
    stream->context = context;
    stream->is_default = true;
  }
  contexts.insert(context);
  return context;
}

void State::unload(Module* module) {
  for (const ptx::Global& global : module->code->globals()) {
    devices[static_cast<size_t>(module->context->device)].memory.remove(global.address);
  }
  module->context->modules.erase(module);
  delete module;
}

// The handle itself is kept, so that a stale handle is recognised and its address is never given out again.
void State::destroy_context(Context* context) {
  while (!context->modules.empty()) unload(*context->modules.begin());
  for (Stream* stream : context->streams) delete stream;
  context->streams.clear();
  context->alive = false;
}

uint64_t State::allocation_of(uint64_t address) const {
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin()) return 0;
  --it;
  return address - it->first < it->second.bytes ? it->first : 0;
}

Stream* State::stream(void* handle) {
  const uintptr_t number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 2) {
    Context* context = current();
    if (context == nullptr) return nullptr;
    return number == 2 ? &context->per_thread : &context->legacy;
  }
  auto* stream = static_cast<Stream*>(handle);
  for (Context* context : contexts) {
    if (context->streams.count(stream) != 0) return stream;
  }
  return nullptr;
}

int State::check_unsafe() {
  const int mode = thread_capture_mode();
  if (mode == kCaptureRelaxed) return kSuccess;
  int result = kSuccess;
  for (const auto& capture : captures) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool concerned =
        mine ? capture->mode != kCaptureRelaxed : capture->mode == kCaptureGlobal && mode == kCaptureGlobal;
    if (!concerned) continue;
    capture->invalidated = true;
    result = kCaptureUnsupported;
  }
  return result;
}

int State::enqueue(Stream* stream, std::function<int()> work) {
  if (stream->capture == nullptr) {
    // Work in the legacy stream waits for every blocking stream, but a stream in capture cannot be waited for.
    if (stream == &stream->context->legacy) {
      for (const auto& capture : captures) {
        if (capture->origin->context != stream->context || capture->origin->non_blocking) continue;
        capture->invalidated = true;
        return kCaptureImplicit;
      }
    }
    return work();
  }
  Capture& capture = *stream->capture;
  if (capture.invalidated) return kCaptureInvalidated;
  capture.nodes.push_back(std::move(work));
  if (stream != capture.origin) capture.unjoined.insert(stream);
  return kSuccess;
}

int State::check_wait(Stream* stream) {
  if (stream->capture == nullptr) return stream->context->error;
  stream->capture->invalidated = true;
  return kCaptureUnsupported;
}

Call::Call(const char* name, unsigned need) : state_(State::get()), lock_(state_.mutex) {
  ++state_.calls[name];
  const auto failure = state_.failures.find(name);
  if (failure != state_.failures.end()) {
    if (failure->second.always) {
      refused_ = failure->second.result;
    } else if (failure->second.after-- == 0) {
      refused_ = failure->second.result;
      state_.failures.erase(failure);
    }
    if (refused_ != kSuccess) return;
  }
  if ((need & kInitialised) != 0 && !state_.initialised) {
    refused_ = kNotInitialized;
    return;
  }
  if ((need & kContext) == kContext) {
    context_ = state_.current();
    if (context_ == nullptr)
      refused_ = kInvalidContext;
    else if (!context_->alive)
      refused_ = kContextIsDestroyed;
    else
      refused_ = context_->error;
    if (refused_ != kSuccess) return;
  }
  if ((need & kUnsafe) != 0) refused_ = state_.check_unsafe();
}

}  // namespace lathe::emulator
