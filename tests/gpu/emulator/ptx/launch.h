// Runs a kernel's grid on the CPU, functionally: what a device may do in any order is done in an order drawn
// from a seed.
//
// Statuses of launch(): kInvalidArgument for a launch that the kernel or the device refuses; kOutOfRange for
// an access outside live memory; kFailedPrecondition for a misaligned one; kDeadlineExceeded for a deadlock;
// kAborted for everything else that a kernel must not do. The message names kernel, block, thread, line and
// cause.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/gpu/emulator/ptx/address_map.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace lathe::ptx {

// When asynchronous copies and matrix products take effect, within what the instructions guarantee.
enum class AsyncPolicy { late, early, random };

struct LaunchOptions {
  uint64_t seed = 0;
  AsyncPolicy async = AsyncPolicy::late;
  uint32_t multiprocessors = 132;
  uint32_t shared_limit = 232448;           // bytes a block may have
  uint64_t patience = uint64_t{200} << 20;  // instructions without an effect before it counts as a livelock
};

struct LaunchConfig {
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {0, 0, 0};  // zeros: the kernel's own, or none
  uint32_t dynamic_shared = 0;
  absl::Span<const uint8_t> parameters;
};

struct LaunchCounts {
  uint64_t instructions = 0, blocks = 0;
};

absl::Status launch(const Module& module, const Kernel& kernel, const LaunchConfig& config,
                    const AddressMap& memory, const LaunchOptions& options, LaunchCounts* counts = nullptr);

}  // namespace lathe::ptx
