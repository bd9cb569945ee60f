#include "tests/gpu/emulator/hip/state.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace lathe::emulator::hip {
namespace {

// The boards as rocminfo describes them.
constexpr Board kBoards[] = {
    {"gfx90a", "gfx90a:sramecc+:xnack-", 104, 32, 64, 1700000, 1600000, 4096, 8 << 20, 65536},
    {"gfx942", "gfx942:sramecc+:xnack-", 304, 32, 64, 2100000, 1300000, 8192, 4 << 20, 65536},
    {"gfx950", "gfx950:sramecc+:xnack-", 256, 32, 64, 2400000, 2000000, 8192, 4 << 20, 163840},
    {"gfx1100", "gfx1100", 96, 32, 32, 2500000, 1250000, 384, 6 << 20, 65536},
    {"gfx1200", "gfx1200", 32, 32, 32, 3130000, 1250000, 128, 4 << 20, 65536},
    {"gfx1201", "gfx1201", 64, 32, 32, 2970000, 1250000, 256, 8 << 20, 65536},
};
// Far from the addresses that the system gives out, so that both processes have this range free.
constexpr uint64_t kArenaAddress = uint64_t{1} << 44;

}  // namespace

const Board* board_of(const std::string& arch) {
  for (const Board& board : kBoards)
    if (board.arch == arch) return &board;
  return nullptr;
}

State& State::get() {
  static State& state = *new State;  // never destroyed: calls may still arrive at exit
  return state;
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

int& capture_mode() {
  thread_local int mode = kCaptureGlobal;
  return mode;
}

int State::enqueue(void* stream, Work work) {
  Stream* to = created(stream);
  if (to == nullptr || to->capture == nullptr) return work();
  if (to->capture->invalidated) return kCaptureInvalidated;
  to->capture->graph.nodes.push_back(std::move(work));
  return kSuccess;
}

int State::refuse_unsafe() {
  if (capture_mode() == kCaptureRelaxed) return kSuccess;
  int result = kSuccess;
  for (Stream* stream : streams) {
    Capture* capture = stream->capture.get();
    if (capture == nullptr || capture->mode == kCaptureRelaxed) continue;
    const bool global = capture->mode == kCaptureGlobal && capture_mode() == kCaptureGlobal;
    if (!global && capture->thread != std::this_thread::get_id()) continue;
    capture->invalidated = true;
    result = kCaptureUnsupported;
  }
  return result;
}

int State::refuse_wait(void* stream) {
  Stream* waited = created(stream);
  if (waited == nullptr || waited->capture == nullptr) return waited == nullptr ? kSuccess : refuse_unsafe();
  waited->capture->invalidated = true;
  return kCaptureUnsupported;
}

int State::initialise() {
  if (initialised) return cause.empty() ? kSuccess : kNoDevice;
  initialised = true;
  const char* arch = std::getenv("LATHE_EMULATOR_ARCH");
  board = board_of(arch == nullptr ? "gfx942" : arch);
  if (board == nullptr) cause = absl::StrCat("LATHE_EMULATOR_ARCH=", arch, " is not supported");
  if (cause.empty()) arena = Arena::create(kArenaAddress);
  if (cause.empty() && arena == nullptr) cause = "cannot reserve address space for device memory";
  if (cause.empty()) {
    auto started = Worker::start(*arena);
    if (started.ok())
      worker = *std::move(started);
    else
      cause = std::string(started.status().message());
  }
  return cause.empty() ? kSuccess : kNoDevice;
}

std::map<uint64_t, uint64_t>::const_iterator State::allocation_of(uint64_t address) const {
  auto it = allocations.upper_bound(address);
  if (it == allocations.begin()) return allocations.end();
  --it;
  return address - it->first < it->second ? it : allocations.end();
}

uint8_t* State::bytes_at(uint64_t address, size_t bytes) const {
  const auto it = allocation_of(address);
  if (it == allocations.end() || bytes > it->second - (address - it->first)) return nullptr;
  return reinterpret_cast<uint8_t*>(address + arena->bias());
}

}  // namespace lathe::emulator::hip
