// Warm-up: prepares every class of a manifest, in parallel.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "dispatch/device.h"

// The body of a lathe_manifest.
struct lathe_manifest {
  lathe::Manifest manifest;
};

namespace lathe {

// The manifest entry of a weight. `weight` was read with Purpose::kWarm.
ManifestEntry entry_of(const Request& weight, int64_t m_max, std::string name);

struct WarmClass {
  DispatchKey key;
  int64_t m_max = 0;  // launch memory is reserved for M up to this
  std::string name;   // of the manifest entry
  GroupedSizes grouped = {};
};
// The classes of the manifest's entries on this device, in order and without duplicates. Fields that have no effect
// on the device are set as the device's requests have them.
std::vector<WarmClass> classes_on(const lathe_device& device, const Manifest& manifest);

struct WarmedClass {
  size_t done, total;
  double seconds;
  const WarmClass& warm;
  std::string problem;  // "matmul ... on cpu"
  const absl::Status& status;
};

// Work on a class that replaces preparing it. If goes_on() returns false, it may return kCancelled; the class then
// counts as not begun.
using ClassWork = std::function<absl::Status(const WarmClass& warm, const std::function<bool()>& goes_on)>;

struct WarmOptions {
  const char* what = "warm-up";  // for messages
  ClassWork work;                // null: prepare the class
  size_t threads = 1;
  bool compiles = true;  // false: a kernel that no store has is a miss_error
  bool stops_on_failure = false;
  std::chrono::nanoseconds deadline{0};  // 0: none
  const volatile int32_t* cancel = nullptr;
  std::function<bool(const WarmedClass&)> progress;  // never called concurrently; true ends the warm-up
};
// `options` may be null. kInvalidArgument names the field.
absl::StatusOr<WarmOptions> read_warm_options(const lathe_context& context,
                                              const lathe_warmup_options* options);

// Prepares the classes. A device with a driver loads them and reserves launch memory for the largest; for a
// described device they go into the cache. With options.work, calls that instead and counts each success as loaded.
// Returns the status of lathe_warmup.
absl::Status warm_up(lathe_device& device, const std::vector<WarmClass>& classes, const WarmOptions& options,
                     lathe_warmup_report* report);

}  // namespace lathe
