// The interface of a device: facts, loading code, launching a recipe. cpu/ and gpu/ (for CUDA and HIP)
// implement it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/log.h"
#include "core/args.h"
#include "core/artifact.h"
#include "core/calibration.h"
#include "core/external.h"
#include "core/facts.h"
#include "core/recipe.h"

namespace lathe {

// Code loaded on a device. It lives until its driver is destroyed.
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
  const ProblemClass* problem = nullptr;  // the class of the request
  ArgumentBlock* args = nullptr;          // m, n, k, batch, splits and k_chunk are set
  LaunchConfig config;
  Dims dims;
  void* stream = nullptr;
  void* workspace = nullptr;  // the caller's, or null for the driver's own slab
  size_t workspace_bytes = 0;
  bool workspace_is_zeroed = false;    // GPU: see LATHE_WORKSPACE_ZEROED in lathe.h
  bool zero_product = false;           // GPU: A and B point to zeros that the driver owns
  const LaunchShape* shape = nullptr;  // null: evaluate the formulas
};

// The maximum number of workers of a launch.
inline constexpr int32_t kMaxWorkers = 1024;

// One of several launches that share the workers (CPU only). `first_task` belongs to the driver.
struct MemberLaunch {
  static constexpr size_t kMaxSteps = 8;

  const LoadedKernel* kernel = nullptr;
  LaunchConfig config;
  Dims dims;
  ArgumentBlock args;  // m, n, k, batch, splits and k_chunk are set
  // Null, or a launch with as many tasks: task i of `before` runs on the same worker directly before task i of this one.
  // Both have one step and no workspace.
  const MemberLaunch* before = nullptr;
  std::array<int64_t, kMaxSteps> first_task;
};
// Host code that runs before or after the launches: body(context, index) for index in [0, count), in parallel.
struct HostStep {
  void (*body)(void* context, int64_t index) = nullptr;
  void* context = nullptr;
  int64_t count = 0;
};
// Launches that run at the same time: each step of all members forms one set of tasks. `before` ends before the first
// step begins, and `after` begins when the last one has ended.
struct JointLaunch {
  MemberLaunch* members = nullptr;
  int64_t count = 0;
  HostStep before, after;
};

// A slice of one phase of a launch, for callers with threads of their own (CPU only).
struct Slice {
  int32_t phase = 0, worker = 0, workers = 1;
};

// A launch whose tasks run one after the other on the caller's thread and use no memory but its stack. It is
// run by calling the tasks directly.
struct CallerTasks {
  // Memory from a pool would cost two atomic operations. Kernels spill registers beside it, and lathe.h promises
  // that a call takes at most 12 KiB of stack.
  static constexpr size_t kStackBytes = 7 * 1024;

  CpuTask task = nullptr;  // null: the launch needs launch()
  int64_t count = 0;
  uintptr_t misaligned = 0;  // address bits that must be 0 in every operand
  bool needs_scratch = false;

  // Returns false, and has done nothing, if an operand is misaligned.
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

// Direction of a copy.
enum class CopyKind : int32_t { kToDevice = 1, kToHost = 2, kOnDevice = 3 };

// A device's memory and streams, for callers without their own allocator. Thread-safe. The contract is that
// of lathe_device_alloc and the functions after it in lathe.h.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  // Returns null for 0 bytes. kResourceExhausted: not enough memory.
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
  // Number of worker slots that a launch may use; 1 on a GPU.
  virtual int32_t workers() const = 0;
  // Links or loads the artifact's code. Takes milliseconds, thread-safe. kInvalidArgument: this device cannot
  // run the code; the message has the cause. kDataLoss: the driver rejects this form of the code (for
  // example, a cubin for another driver), and compiling again may help. kUnavailable: an external library
  // that the recipe needs cannot be used.
  virtual absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) = 0;
  // Returns the artifact in the form that is worth storing: PTX becomes a cubin if the driver can link it.
  // Otherwise it is returned unchanged, and load() may still accept it. Takes up to a second, thread-safe.
  virtual Artifact finish(Artifact artifact) { return artifact; }
  // Runs the recipe's steps. No allocation and no lock after the first launch of a size. Thread-safe.
  // kUnavailable: an external library cannot do this launch, or failed before it wrote anything.
  virtual absl::Status launch(const Launch& launch) = 0;
  virtual absl::Status launch_slice(const Launch& launch, const Slice& slice) = 0;
  // Runs several launches at the same time. CPU only. As launch(), except that no external library may be among them.
  virtual absl::Status launch_jointly(const JointLaunch& /*launch*/) {
    return absl::UnimplementedError("only the CPU runs several launches at once");
  }
  // Calls body(memory) with at least `bytes` of host memory, aligned to 64 bytes, that the driver keeps for later
  // calls. CPU only. kResourceExhausted: there is no memory.
  virtual absl::Status with_host_memory(size_t /*bytes*/,
                                        absl::FunctionRef<absl::Status(char* memory)> /*body*/) {
    return absl::UnimplementedError("only the CPU lends host memory");
  }
  // Describes launch() of this kernel as plain task calls, for a launch without a stream and workspace.
  virtual CallerTasks caller_tasks(const LoadedKernel& /*kernel*/, const LaunchConfig& /*config*/,
                                   const Dims& /*dims*/) const {
    return {};
  }
  // The shape of launches with this kernel, config and dims; not known if the launch must evaluate it.
  virtual LaunchShape launch_shape(const LoadedKernel& /*kernel*/, const LaunchConfig& /*config*/,
                                   const Dims& /*dims*/) const {
    return {};
  }
  // Bytes that a caller's workspace must have for this launch with that many workers.
  virtual size_t workspace_bytes(const LoadedKernel& kernel, const LaunchConfig& config,
                                 int32_t workers) const = 0;
  virtual DeviceMemory& memory() = 0;
  // Lists the external libraries of this backend with their versions, or the reason why one is absent. The
  // first call opens them, which takes milliseconds. Thread-safe.
  virtual std::vector<ExternalFound> find_externals() { return {}; }
  // How many threads an external library may use in a launch.
  virtual int32_t external_threads() const { return 1; }
  // Whether the caller captures this stream. For the default stream: whether any capture forbids work on it.
  virtual absl::StatusOr<bool> is_capturing(void* /*stream*/) { return false; }
  // Announces the most launch memory that a kernel will need, so that later launches need not allocate any.
  // Called by warm-up. Thread-safe.
  virtual absl::Status reserve(size_t /*workspace_bytes*/, size_t /*counters*/) { return absl::OkStatus(); }
  // Calls body(memory) with at least `bytes` of the stream's launch memory, aligned to 256 bytes. GPU only. Launches
  // from `body` may take parts of it as their workspace; those of other threads on this stream come before or after
  // all of them. kResourceExhausted: there is no memory.
  virtual absl::Status with_workspace(void* /*stream*/, size_t /*bytes*/,
                                      absl::FunctionRef<absl::Status(char* memory)> /*body*/) {
    return absl::UnimplementedError("only GPUs have launch memory of a stream");
  }
};

// A caller's parallel-for. It calls body(index, worker) for index in [0, count) with worker in [0, workers).
using ParallelBody = void (*)(void* context, int64_t index, int32_t worker);
using ParallelFor = std::function<void(int64_t count, ParallelBody body, void* context)>;

struct DriverOptions {
  int32_t workers = 0;  // 0: one per core that this process may run on
  // Empty: the driver has its own pool, whose threads start at the first parallel launch.
  ParallelFor parallel_for;
  bool validate = false;   // GPU: check every pointer before a launch
  std::string cpu_target;  // CPU: a named target to compile for; "": the best that the processor supports
  bool perf_map = false;   // CPU: write names of linked code for perf (runtime/cpu/perf_map.h)
  Logger logger;
  const CalibrationFile* calibrations =
      nullptr;  // CPU: measured facts; null: none. Used while a device is opened
};

struct CalibrateOptions {
  double seconds = 6;     // for everything, at most 10
  size_t pool_bytes = 0;  // memory to read from; 0: pool_bytes_for in cpu/calibrate/measure.h
};
// A calibration, and what could not be measured.
struct Calibrated {
  Calibration calibration;
  std::map<std::string, std::string> absent;  // facts that could not be measured, with the reason
  int32_t unsteady = 0;                       // facts that other work on the machine disturbed
  // The facts that a device has without the calibration.
  DeviceFacts before;
};

// One row per backend (runtime/registry.cc).
struct BackendRow {
  const char* prefix;  // "cpu", "cuda", "hip", "spirv"
  // Names of the devices that are present. kUnavailable, with the reason, if there are none.
  absl::StatusOr<std::vector<std::string>> (*enumerate)();
  // The facts that open() would use. Of `options`, the CPU target, the calibrations and the workers matter.
  absl::StatusOr<DeviceFacts> (*query)(absl::string_view name, const DriverOptions& options);
  absl::StatusOr<std::unique_ptr<Driver>> (*open)(absl::string_view name, const DriverOptions& options);
  // Measures the device's facts, with as many threads as a launch would use. They end with the call. Null: this
  // backend's facts cannot be measured.
  absl::StatusOr<Calibrated> (*calibrate)(absl::string_view name, const DriverOptions& options,
                                          const CalibrateOptions& calibrate);
};
const std::vector<BackendRow>& backends();
// Opens a device by its full name, such as "cuda:0". kInvalidArgument: unknown prefix; the message lists the
// known ones. kUnavailable: the device cannot be opened, with the reason.
absl::StatusOr<std::unique_ptr<Driver>> open_driver(absl::string_view name, const DriverOptions& options);
// Whether calibrate_device can measure it. kInvalidArgument: as above. kUnimplemented: no device of this backend can be
// measured.
absl::Status check_calibratable(absl::string_view name);
// Measures a device by its full name.
absl::StatusOr<Calibrated> calibrate_device(absl::string_view name, const DriverOptions& options,
                                            const CalibrateOptions& calibrate);

}  // namespace lathe
