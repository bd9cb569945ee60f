// What every device offers: facts, loading code, launching a recipe. Implemented in cpu/, cuda/ and hip/.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "core/args.h"
#include "core/artifact.h"
#include "core/external.h"
#include "core/facts.h"
#include "core/recipe.h"

namespace lathe {

// Code on a device. Lives until its driver is destroyed.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  const Recipe& recipe() const { return recipe_; }

 protected:
  explicit LoadedKernel(Recipe recipe) : recipe_(std::move(recipe)) {}
  Recipe recipe_;
};

// Grid and dynamic shared memory of a single-kernel GPU launch, evaluated from the recipe's formulas. A
// caller that repeats a launch keeps it.
struct LaunchShape {
  unsigned grid[3] = {0, 0, 0};
  unsigned shared_bytes = 0;
  bool known = false;  // false: the launch evaluates the formulas
};

// One launch. The driver may fill in workspace, counters and scratch of `args`.
struct Launch {
  const LoadedKernel* kernel = nullptr;
  const ProblemClass* problem = nullptr;  // the request's
  ArgumentBlock* args = nullptr;          // m, n, k, batch, splits, k_chunk set
  LaunchConfig config;
  Dims dims;
  void* stream = nullptr;
  void* workspace = nullptr;  // the caller's, or null for the driver's own slab
  size_t workspace_bytes = 0;
  bool workspace_is_zeroed = false;    // GPU: as lathe.h's LATHE_WORKSPACE_ZEROED has it
  bool zero_product = false;           // GPU: A and B are to be zeros of the driver's own
  const LaunchShape* shape = nullptr;  // null: evaluate the formulas
};

// Worker slots that a launch may have at most.
inline constexpr int32_t kMaxWorkers = 1024;

// A slice of one phase of a launch, for callers with threads of their own (CPU only).
struct Slice {
  int32_t phase = 0, worker = 0, workers = 1;
};

// A launch whose tasks its caller's thread runs one after the other, in no memory but its stack: to run it is
// no more than to call them.
struct CallerTasks {
  static constexpr size_t kStackBytes = 8 * 1024;  // memory from a pool costs two locked instructions

  CpuTask task = nullptr;  // null: launch() does more than that
  int64_t count = 0;
  uintptr_t misaligned = 0;  // bits that no operand's address may have
  bool needs_scratch = false;

  // False: nothing was done, an operand is misaligned.
  bool run(ArgumentBlock* args) const {
    uintptr_t addresses = 0;
    for (const void* p : {args->a, args->b, args->c, args->d, args->bias, args->residual, args->values})
      addresses |= reinterpret_cast<uintptr_t>(p);
    if (__builtin_expect((addresses & misaligned) != 0, 0)) return false;
    if (needs_scratch)
      run_with_scratch(args);
    else
      for (int64_t i = 0; i < count; ++i) task(args, i);
    return true;
  }

 private:
  [[gnu::noinline]] void run_with_scratch(ArgumentBlock* args) const {
    alignas(64) char scratch[kStackBytes];
    args->scratch = scratch;
    for (int64_t i = 0; i < count; ++i) task(args, i);
  }
};

// What a copy goes from and to.
enum class CopyKind : int32_t { kToDevice = 1, kToHost = 2, kOnDevice = 3 };

// A device's memory and streams, for callers that have no means of their own. Thread-safe; the contract is
// that of lathe.h's lathe_device_alloc and what follows it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Null for 0 bytes. kResourceExhausted when there is no more.
  virtual absl::StatusOr<void*> allocate(size_t bytes) = 0;
  virtual absl::Status release(void* memory) = 0;
  virtual absl::Status copy(void* stream, void* to, const void* from, size_t bytes, CopyKind kind) = 0;
  virtual absl::StatusOr<void*> create_stream() = 0;
  virtual absl::Status destroy_stream(void* stream) = 0;
  virtual absl::Status synchronize(void* stream) = 0;
};

class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceFacts& facts() const = 0;
  // Worker slots a launch may use; 1 on a GPU.
  virtual int32_t workers() const = 0;
  // Links or loads the artifact's code. kInvalidArgument for code this device cannot take, naming the cause;
  // kDataLoss when it is the form of the code (a cubin of another driver's time) and compiling again may
  // help. Milliseconds, thread-safe.
  // kUnavailable where an external library that it wants cannot be used.
  virtual absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) = 0;
  // The artifact in the form that is worth keeping: PTX becomes a cubin where the driver can link one.
  // Returned as it is where there is nothing to do or it fails: load() may still take it. Up to a second,
  // thread-safe.
  virtual Artifact finish(Artifact artifact) { return artifact; }
  // Runs the recipe's steps. No allocation and no lock after the first launch of a size. Thread-safe.
  // kUnavailable: an external library cannot do this launch, or failed in it before it wrote anything.
  virtual absl::Status launch(const Launch& launch) = 0;
  virtual absl::Status launch_slice(const Launch& launch, const Slice& slice) = 0;
  // What launch() of such a kernel comes to, without a stream or a workspace of the caller's.
  virtual CallerTasks caller_tasks(const LoadedKernel& /*kernel*/, const LaunchConfig& /*config*/,
                                   const Dims& /*dims*/) const {
    return {};
  }
  // The shape of launches with this kernel, config and dims.
  virtual LaunchShape launch_shape(const LoadedKernel& /*kernel*/, const LaunchConfig& /*config*/,
                                   const Dims& /*dims*/) const {
    return {};
  }
  // Bytes a caller's workspace must have for this launch with that many workers.
  virtual size_t workspace_bytes(const LoadedKernel& kernel, const LaunchConfig& config,
                                 int32_t workers) const = 0;
  virtual DeviceMemory& memory() = 0;
  // The external libraries that this backend may use, each opened at the first call, and why those that it
  // may not use are absent. Milliseconds then; thread-safe.
  virtual std::vector<ExternalFound> find_externals() { return {}; }
  // Threads that such a library may use in a launch.
  virtual int32_t external_threads() const { return 1; }
  // Whether the caller captures this stream (or, for the default stream, any that forbids work on it).
  virtual absl::StatusOr<bool> is_capturing(void* /*stream*/) { return false; }
  // Warm-up says how much launch memory its kernels need at most, so that launches need not take any.
  // Thread-safe.
  virtual absl::Status reserve(size_t /*workspace_bytes*/, size_t /*counters*/) { return absl::OkStatus(); }
};

// A caller's parallel-for: body(index, worker) for index in [0, count), worker in [0, workers).
using ParallelBody = void (*)(void* context, int64_t index, int32_t worker);
using ParallelFor = std::function<void(int64_t count, ParallelBody body, void* context)>;

struct DriverOptions {
  int32_t workers = 0;  // 0: one per core this process may run on
  ParallelFor
      parallel_for;        // empty: a pool of the driver's own, threads started at the first parallel launch
  bool validate = false;   // GPU: look every pointer up before a launch
  std::string cpu_target;  // CPU: a named target to take the processor for; "": what it is
  bool perf_map = false;   // CPU: names of linked code for perf (runtime/cpu/perf_map.h)
  Logger logger;
};

// One row a backend (runtime/registry.cc).
struct BackendRow {
  const char* prefix;  // "cpu", "cuda", "hip", "spirv"
  // Names of the devices present, or kUnavailable with the reason.
  absl::StatusOr<std::vector<std::string>> (*enumerate)();
  // As open() would have them: of `options` the CPU's target counts.
  absl::StatusOr<DeviceFacts> (*query)(absl::string_view name, const DriverOptions& options);
  absl::StatusOr<std::unique_ptr<Driver>> (*open)(absl::string_view name, const DriverOptions& options);
};
const std::vector<BackendRow>& backends();
// Opens by full name: kInvalidArgument for an unknown prefix (listing the known ones), kUnavailable with the
// reason.
absl::StatusOr<std::unique_ptr<Driver>> open_driver(absl::string_view name, const DriverOptions& options);

}  // namespace lathe
