// Warm-up: every class of a manifest, prepared in parallel.
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

// The entry of a weight, as a descriptor was read with Purpose::kWarm.
ManifestEntry entry_of(const Request& weight, int64_t m_max, std::string name);

struct WarmClass {
  DispatchKey key;
  int64_t m_max = 0;  // launch memory is set aside for M up to this
  std::string name;   // the manifest entry's
};
// What the manifest's entries are on this device, each class once, in order: fields that the device takes no
// notice of are set as its requests have them.
std::vector<WarmClass> classes_on(const lathe_device& device, const Manifest& manifest);

struct WarmedClass {
  size_t done, total;
  double seconds;
  const WarmClass& warm;
  std::string problem;  // "matmul ... on cpu"
  const absl::Status& status;
};

// What is done with a class in the place of preparing it: kCancelled, where `goes_on` has said that no more
// is to be begun, leaves it not begun.
using ClassWork = std::function<absl::Status(const WarmClass& warm, const std::function<bool()>& goes_on)>;

struct WarmOptions {
  const char* what = "warm-up";  // for messages
  ClassWork work;                // null: the class is prepared
  size_t threads = 1;
  bool compiles = true;  // false: what no store has is a miss
  bool stops_on_failure = false;
  std::chrono::nanoseconds deadline{0};  // 0: none
  const volatile int32_t* cancel = nullptr;
  std::function<bool(const WarmedClass&)> progress;  // one call at a time; true ends the warm-up
};
// `options` may be null. kInvalidArgument names the field.
absl::StatusOr<WarmOptions> read_warm_options(const lathe_context& context,
                                              const lathe_warmup_options* options);

// Does `work` with the classes, which counts as loaded where it succeeds; else prepares them: onto a device
// with a driver, which then sets launch memory aside for the largest; into the cache for one that is only
// described. Answers as lathe_warmup does.
absl::Status warm_up(lathe_device& device, const std::vector<WarmClass>& classes, const WarmOptions& options,
                     lathe_warmup_report* report);

}  // namespace lathe
