// Runs the grid of a kernel on the CPU. Results are modelled, time is not. Whatever the hardware may do in any order
// happens in an order drawn from a seed.
//
// launch() returns kInvalidArgument for a launch that the kernel or the device refuses; kOutOfRange for an access
// outside live memory; kFailedPrecondition for a misaligned access; kDeadlineExceeded for a deadlock; kAborted for
// every other violation of a rule. The message names kernel, block, thread, line and cause.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tests/gpu/emulator/ptx/address_map.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace lathe::ptx {

// When an asynchronous copy or a matrix product takes effect: as late or as early as PTX allows, or at random.
enum class AsyncPolicy { late, early, random };

struct LaunchOptions {
  uint64_t seed = 0;
  AsyncPolicy async = AsyncPolicy::late;
  uint32_t multiprocessors = 132;
  uint32_t shared_limit = 232448;           // bytes of shared memory per block
  uint64_t patience = uint64_t{200} << 20;  // instructions without any effect before a livelock is reported
};

struct LaunchConfig {
  std::array<uint32_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::array<uint32_t, 3> cluster = {0, 0, 0};  // zeros: the cluster declared by the kernel, if any
  uint32_t dynamic_shared = 0;
  absl::Span<const uint8_t> parameters;
};

struct LaunchCounts {
  uint64_t instructions = 0, blocks = 0;
};

absl::Status launch(const Module& module, const Kernel& kernel, const LaunchConfig& config,
                    const AddressMap& memory, const LaunchOptions& options, LaunchCounts* counts = nullptr);

}  // namespace lathe::ptx
