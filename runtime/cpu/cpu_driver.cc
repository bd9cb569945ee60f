#include "runtime/cpu/cpu_driver.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/execution_environment.h"
#include "base/status.h"
#include "runtime/cpu/calibrate/measure.h"
#include "runtime/cpu/cpu_facts.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host_memory.h"
#include "runtime/cpu/joint_launch.h"
#include "runtime/cpu/object_loader.h"
#include "runtime/cpu/slab_pool.h"
#include "runtime/cpu/worker_pool.h"

namespace lathe {
namespace {

absl::Status refusal(const Launch& launch, absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("cpu: launch m=", launch.dims.m, " n=", launch.dims.n, " k=",
                                                 launch.dims.k, " batch=", launch.dims.batch, ": ", cause));
}

// Where a launch's memory is: the shared workspace, then one scratch area per worker, each on its own cache
// lines.
struct Layout {
  explicit Layout(const LaunchConfig& config)
      : shared(line_up(config.workspace_bytes)), scratch_stride(line_up(config.scratch_bytes_per_worker)) {}

  // SIZE_MAX if the sum overflows.
  size_t bytes(int32_t workers) const {
    size_t scratch, total;
    if (__builtin_mul_overflow(scratch_stride, static_cast<size_t>(workers), &scratch) ||
        __builtin_add_overflow(shared, scratch, &total)) {
      return SIZE_MAX;
    }
    return total;
  }

  size_t shared, scratch_stride;

 private:
  static size_t line_up(size_t bytes) {
    return bytes > SIZE_MAX - SlabPool::kAlignment ? SIZE_MAX
                                                   : (bytes + SlabPool::kAlignment - 1) & ~size_t{63};
  }
};

// The context of the caller's parallel-for.
struct ParallelStep {
  TaskSet tasks;
  int32_t workers;
  std::atomic<bool> broken{false};  // the parallel-for passed a bad index or worker

  static void body(void* context, int64_t index, int32_t worker) {
    const ExecutionEnvironment environment;  // the thread belongs to the host
    ParallelStep& step = *static_cast<ParallelStep*>(context);
    if (worker < 0 || worker >= step.workers || index < 0 || index >= step.tasks.count) {
      step.broken.store(true, std::memory_order_relaxed);
      return;
    }
    ArgumentBlock args = *step.tasks.args;
    args.scratch = step.tasks.scratch + worker * step.tasks.scratch_stride;
    step.tasks.task(&args, index);
  }
};

// Holds the pool for a whole launch, so that its steps follow each other without a gap. Null: does nothing.
class PoolClaim {
 public:
  explicit PoolClaim(WorkerPool* pool) : pool_(pool != nullptr && pool->try_enter() ? pool : nullptr) {}
  ~PoolClaim() {
    if (pool_ != nullptr) pool_->leave();
  }
  PoolClaim(const PoolClaim&) = delete;
  PoolClaim& operator=(const PoolClaim&) = delete;
  bool held() const { return pool_ != nullptr; }

 private:
  WorkerPool* const pool_;
};

// Scratch memory of the tasks of a launch, and whether several workers run them.
struct TaskMemory {
  char* scratch;
  size_t scratch_stride;
  bool parallel;
};

class CpuDriver final : public Driver {
 public:
  CpuDriver(DeviceFacts facts, int32_t workers, int32_t processors, const DriverOptions& options)
      : facts_(std::move(facts)),
        workers_(workers),
        parallel_for_(options.parallel_for),
        loader_(options.perf_map ? std::make_optional<PerfMap>(options.logger) : std::nullopt),
        pool_(workers, processors) {}

  const DeviceFacts& facts() const override { return facts_; }
  int32_t workers() const override { return workers_; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) override {
    return CpuKernel::load(artifact, loader_, externals_, this);
  }
  absl::Status launch(const Launch& launch) override;
  absl::Status launch_slice(const Launch& launch, const Slice& slice) override;
  absl::Status launch_jointly(const JointLaunch& launch) override;
  absl::Status with_host_memory(size_t bytes, absl::FunctionRef<absl::Status(char*)> body) override;
  CallerTasks caller_tasks(const LoadedKernel& kernel, const LaunchConfig& config,
                           const Dims& dims) const override;
  size_t workspace_bytes(const LoadedKernel&, const LaunchConfig& config, int32_t workers) const override {
    return Layout(config).bytes(workers);
  }
  DeviceMemory& memory() override { return memory_; }
  std::vector<ExternalFound> find_externals() override { return externals_.find(); }
  // A caller's parallel-for lends its threads to tasks. A library cannot use those and would start more
  // beside them.
  int32_t external_threads() const override { return parallel_for_ ? 1 : workers_; }

 private:
  absl::Status check(const Launch& launch) const;
  absl::Status check_member(const MemberLaunch& member) const;
  absl::Status check_workspace(const Launch& launch, size_t needed) const;
  absl::Status run_parallel(const Launch& launch, const CpuKernel& kernel, const int64_t* counts,
                            const ArgumentBlock& args, size_t scratch_stride);
  // Runs the tasks on all workers. Call with the pool claimed. An error says what the caller's parallel-for did.
  absl::Status run_tasks(const TaskSet& tasks);
  absl::Status run_shared(CpuTask task, void* tasks, int64_t count, const TaskMemory& memory);
  absl::Status run_host_step(const HostStep& step, const TaskMemory& memory);

  DeviceFacts facts_;
  const int32_t workers_;
  const ParallelFor parallel_for_;
  ObjectLoader loader_;
  ExternalLibraries externals_{Backend::kCpu};
  HostMemory memory_;
  SlabPool slabs_;
  WorkerPool pool_;
};

absl::Status CpuDriver::check(const Launch& launch) const {
  if (launch.kernel == nullptr || launch.args == nullptr) return refusal(launch, "no kernel or no arguments");
  if (static_cast<const CpuKernel*>(launch.kernel)->owner() != this) {
    return refusal(launch, "the kernel was loaded by another device");
  }
  if (launch.stream != nullptr) return refusal(launch, "the stream is not NULL, as it must be on the CPU");
  const uintptr_t mask = static_cast<uintptr_t>(launch.kernel->recipe().pointer_alignment) - 1;
  if (mask != 0) {
    const ArgumentBlock& a = *launch.args;
    for (const void* pointer : {a.a, a.b, a.c, a.d, a.bias, a.residual, a.values}) {
      if ((reinterpret_cast<uintptr_t>(pointer) & mask) != 0) {
        return refusal(
            launch, absl::StrCat("an operand is not aligned to the ", mask + 1, " bytes the kernel needs"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CpuDriver::check_workspace(const Launch& launch, size_t needed) const {
  if (launch.workspace_bytes < needed) {
    return refusal(launch, absl::StrCat("workspace of ", launch.workspace_bytes, " bytes < ", needed));
  }
  if (reinterpret_cast<uintptr_t>(launch.workspace) % SlabPool::kAlignment != 0) {
    return refusal(launch, absl::StrCat("workspace is not aligned to ", SlabPool::kAlignment, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status CpuDriver::launch(const Launch& launch) {
  if (absl::Status status = check(launch); !status.ok()) return status;
  const CpuKernel& kernel = *static_cast<const CpuKernel*>(launch.kernel);
  const Layout layout(launch.config);

  const VarValues sizes = var_values(launch.dims, launch.config);
  int64_t counts[CpuKernel::kMaxSteps];
  int64_t most = 0;
  for (size_t i = 0; i < kernel.steps().size(); ++i) {
    counts[i] = kernel.count(i, sizes);
    most = std::max(most, counts[i]);
  }
  if (most > WorkerPool::kMaxTasks)
    return refusal(launch, absl::StrCat("a step has ", most, " tasks, at most ", WorkerPool::kMaxTasks));

  bool parallel = most > 1 && workers_ > 1;
  const PoolClaim claim(parallel && !parallel_for_ ? &pool_ : nullptr);
  if (parallel && !parallel_for_) parallel = claim.held();

  char* memory = static_cast<char*>(launch.workspace);
  SlabPool::Slab slab;
  alignas(SlabPool::kAlignment) char on_stack[CallerTasks::kStackBytes];
  if (layout.shared + layout.scratch_stride != 0) {
    if (memory != nullptr) {
      if (absl::Status status = check_workspace(launch, layout.bytes(workers_)); !status.ok()) return status;
    } else if (!parallel && layout.bytes(1) <= CallerTasks::kStackBytes) {
      memory = on_stack;
    } else {
      const size_t bytes = layout.bytes(parallel ? workers_ : 1);
      slab = slabs_.take(bytes);
      memory = static_cast<char*>(slab.data());
      if (memory == nullptr) {
        return absl::ResourceExhaustedError(
            absl::StrCat("cpu: no memory for a workspace of ", bytes, " bytes"));
      }
    }
  }
  ArgumentBlock& args = *launch.args;
  args.workspace = layout.shared != 0 ? memory : nullptr;
  args.counters = nullptr;
  args.scratch = layout.scratch_stride != 0 ? memory + layout.shared : nullptr;
  if (parallel) return run_parallel(launch, kernel, counts, args, layout.scratch_stride);

  for (size_t i = 0; i < kernel.steps().size(); ++i) {
    const CpuTask task = kernel.steps()[i].task;
    if (__builtin_expect(task == nullptr, 0)) {
      LATHE_RETURN_IF_ERROR(kernel.steps()[i].external->run(args, {external_threads()}));
      continue;
    }
    for (int64_t index = 0; index < counts[i]; ++index) task(&args, index);
  }
  return absl::OkStatus();
}

CallerTasks CpuDriver::caller_tasks(const LoadedKernel& loaded, const LaunchConfig& config,
                                    const Dims& dims) const {
  const auto& kernel = static_cast<const CpuKernel&>(loaded);
  const Layout layout(config);
  if (layout.shared != 0 || layout.scratch_stride > CallerTasks::kStackBytes) return {};
  const VarValues sizes = var_values(dims, config);
  CallerTasks tasks;
  for (size_t i = 0; i < kernel.steps().size(); ++i) {
    const int64_t count = kernel.count(i, sizes);
    if (count == 0) continue;
    if (tasks.count != 0 || kernel.steps()[i].task == nullptr ||
        count > (workers_ > 1 ? 1 : WorkerPool::kMaxTasks))
      return {};
    tasks.task = kernel.steps()[i].task;
    tasks.count = count;
  }
  tasks.misaligned = static_cast<uintptr_t>(kernel.recipe().pointer_alignment) - 1;
  tasks.needs_scratch = layout.scratch_stride != 0;
  return tasks;
}

absl::Status CpuDriver::run_parallel(const Launch& launch, const CpuKernel& kernel, const int64_t* counts,
                                     const ArgumentBlock& args, size_t scratch_stride) {
  for (size_t i = 0; i < kernel.steps().size(); ++i) {
    if (kernel.steps()[i].external != nullptr) {
      LATHE_RETURN_IF_ERROR(kernel.steps()[i].external->run(args, {external_threads()}));
      continue;
    }
    const absl::Status status = run_tasks(
        {kernel.steps()[i].task, &args, counts[i], static_cast<char*>(args.scratch), scratch_stride});
    if (!status.ok()) return refusal(launch, status.message());
  }
  return absl::OkStatus();
}

absl::Status CpuDriver::run_tasks(const TaskSet& tasks) {
  if (tasks.count == 1) {
    tasks.task(tasks.args, 0);  // args->scratch is worker 0's
  } else if (tasks.count > 1 && !parallel_for_) {
    pool_.run(tasks);
  } else if (tasks.count > 1) {
    ParallelStep step{tasks, workers_};
    const CallersEnvironment lent;
    parallel_for_(tasks.count, ParallelStep::body, &step);
    if (step.broken.load(std::memory_order_relaxed)) {
      return absl::InvalidArgumentError(absl::StrCat("the caller's parallel-for passed a worker outside [0, ",
                                                     workers_, ") or an index outside [0, ", tasks.count,
                                                     ")"));
    }
  }
  return absl::OkStatus();
}

absl::Status CpuDriver::check_member(const MemberLaunch& member) const {
  Launch one;
  one.kernel = member.kernel;
  one.args = const_cast<ArgumentBlock*>(&member.args);  // check() only reads
  one.dims = member.dims;
  LATHE_RETURN_IF_ERROR(check(one));
  for (const CpuKernel::CompiledStep& step : static_cast<const CpuKernel*>(member.kernel)->steps())
    if (step.external != nullptr) return refusal(one, "an external library cannot join other launches");
  return absl::OkStatus();
}

absl::Status CpuDriver::launch_jointly(const JointLaunch& launch) {
  for (int64_t i = 0; i < launch.count; ++i) {
    const MemberLaunch& member = launch.members[i];
    LATHE_RETURN_IF_ERROR(check_member(member));
    if (member.before == nullptr) continue;
    LATHE_RETURN_IF_ERROR(check_member(*member.before));
    if (!has_tasks_of(member, *member.before))
      return absl::InvalidArgumentError("cpu: two launches of different tasks cannot run task by task");
  }
  const JointTasks tasks = count_joint_tasks(launch);
  if (tasks.most > WorkerPool::kMaxTasks)
    return absl::InvalidArgumentError(
        absl::StrCat("cpu: a step has ", tasks.most, " tasks, at most ", WorkerPool::kMaxTasks));

  bool parallel = tasks.most > 1 && workers_ > 1;
  const PoolClaim claim(parallel && !parallel_for_ ? &pool_ : nullptr);
  if (parallel && !parallel_for_) parallel = claim.held();
  const size_t bytes =
      tasks.shared_bytes + tasks.scratch_stride * static_cast<size_t>(parallel ? workers_ : 1);
  SlabPool::Slab slab;
  if (bytes != 0) {
    slab = slabs_.take(bytes);
    if (slab.data() == nullptr)
      return absl::ResourceExhaustedError(
          absl::StrCat("cpu: no memory for a workspace of ", bytes, " bytes"));
  }
  char* const memory = static_cast<char*>(slab.data());
  share_workspace(launch, memory);
  const TaskMemory scratch = {tasks.scratch_stride != 0 ? memory + tasks.shared_bytes : nullptr,
                              tasks.scratch_stride, parallel};
  LATHE_RETURN_IF_ERROR(run_host_step(launch.before, scratch));
  for (size_t s = 0; s < tasks.steps; ++s) {
    JointStep step{&tasks, s};
    LATHE_RETURN_IF_ERROR(run_shared(JointStep::run, &step, tasks.counts[s], scratch));
  }
  return run_host_step(launch.after, scratch);
}

absl::Status CpuDriver::run_host_step(const HostStep& step, const TaskMemory& memory) {
  HostTasks tasks{&step};
  return run_shared(HostTasks::run, &tasks, step.count, memory);
}

absl::Status CpuDriver::run_shared(CpuTask task, void* tasks, int64_t count, const TaskMemory& memory) {
  ArgumentBlock args;
  args.workspace = tasks;
  args.scratch = memory.scratch;
  if (memory.parallel) {
    const absl::Status status = run_tasks({task, &args, count, memory.scratch, memory.scratch_stride});
    return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat("cpu: ", status.message()));
  }
  for (int64_t index = 0; index < count; ++index) task(&args, index);
  return absl::OkStatus();
}

absl::Status CpuDriver::with_host_memory(size_t bytes, absl::FunctionRef<absl::Status(char*)> body) {
  if (bytes == 0) return body(nullptr);
  const SlabPool::Slab slab = slabs_.take(bytes);
  if (slab.data() == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat("cpu: no memory for ", bytes, " bytes"));
  return body(static_cast<char*>(slab.data()));
}

absl::Status CpuDriver::launch_slice(const Launch& launch, const Slice& slice) {
  if (absl::Status status = check(launch); !status.ok()) return status;
  const CpuKernel& kernel = *static_cast<const CpuKernel*>(launch.kernel);
  const int32_t phases = static_cast<int32_t>(kernel.steps().size());
  if (slice.phase < 0 || slice.phase >= phases) {
    return refusal(launch, absl::StrCat("phase ", slice.phase, " of ", phases));
  }
  if (slice.workers < 1 || slice.workers > kMaxWorkers || slice.worker < 0 || slice.worker >= slice.workers) {
    return refusal(launch,
                   absl::StrCat("worker ", slice.worker, " of ", slice.workers, " (1 to ", kMaxWorkers, ")"));
  }
  const Layout layout(launch.config);
  if (const size_t needed = layout.bytes(slice.workers); needed != 0) {
    if (launch.workspace == nullptr)
      return refusal(launch, absl::StrCat("a slice needs a workspace of ", needed, " bytes"));
    if (absl::Status status = check_workspace(launch, needed); !status.ok()) return status;
  }
  const CpuKernel::CompiledStep& step = kernel.steps()[static_cast<size_t>(slice.phase)];
  const int64_t count = step.count(var_values(launch.dims, launch.config));
  if (count > WorkerPool::kMaxTasks)
    return refusal(launch, absl::StrCat("a step has ", count, " tasks, at most ", WorkerPool::kMaxTasks));

  ArgumentBlock args = *launch.args;
  char* memory = static_cast<char*>(launch.workspace);
  args.workspace = layout.shared != 0 ? memory : nullptr;
  args.counters = nullptr;
  args.scratch = layout.scratch_stride != 0
                     ? memory + layout.shared + static_cast<size_t>(slice.worker) * layout.scratch_stride
                     : nullptr;
  if (step.external != nullptr)  // a library call cannot be split: the first slice does it all
    return slice.worker == 0 ? step.external->run(args, {}) : absl::OkStatus();
  // Contiguous shares that are as even as possible. No overflow: kMaxTasks * workers is far below 2^63.
  const int64_t begin = count * slice.worker / slice.workers;
  const int64_t end = count * (int64_t{slice.worker} + 1) / slice.workers;
  for (int64_t index = begin; index < end; ++index) step.task(&args, index);
  return absl::OkStatus();
}

absl::Status check_name(absl::string_view name) {
  if (name == "cpu") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no device ", name, ": the CPU's only device is cpu"));
}

// The number of workers of a device with these options.
absl::StatusOr<int32_t> workers_for(const DriverOptions& options) {
  if (options.workers < 0 || options.workers > kMaxWorkers) {
    return absl::InvalidArgumentError(
        absl::StrCat("cpu: ", options.workers, " workers are outside 0 (one per core) to ", kMaxWorkers));
  }
  return options.workers > 0 ? options.workers : std::min(default_workers(), kMaxWorkers);
}

absl::StatusOr<DeviceFacts> uncalibrated_facts(const DriverOptions& options) {
  if (options.cpu_target.empty()) return query_cpu_facts();
  return query_cpu_facts_as(options.cpu_target);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate_cpu() { return std::vector<std::string>{"cpu"}; }

absl::StatusOr<DeviceFacts> query_cpu(absl::string_view name, const DriverOptions& options) {
  LATHE_RETURN_IF_ERROR(check_name(name));
  LATHE_ASSIGN_OR_RETURN(const int32_t workers, workers_for(options));
  LATHE_ASSIGN_OR_RETURN(DeviceFacts facts, uncalibrated_facts(options));
  if (options.calibrations != nullptr && !options.calibrations->path.empty())
    apply_calibration(*options.calibrations, query_machine_identity(facts), workers, &facts);
  return facts;
}

absl::StatusOr<std::unique_ptr<Driver>> open_cpu(absl::string_view name, const DriverOptions& options) {
  LATHE_ASSIGN_OR_RETURN(const int32_t workers, workers_for(options));
  LATHE_ASSIGN_OR_RETURN(DeviceFacts facts, query_cpu(name, options));
  return std::unique_ptr<Driver>(
      std::make_unique<CpuDriver>(std::move(facts), workers, allowed_processors(), options));
}

absl::StatusOr<Calibrated> calibrate_cpu(absl::string_view name, const DriverOptions& options,
                                         const CalibrateOptions& calibrate) {
  LATHE_RETURN_IF_ERROR(check_name(name));
  LATHE_ASSIGN_OR_RETURN(const int32_t workers, workers_for(options));
  Calibrated out;
  LATHE_ASSIGN_OR_RETURN(out.before, uncalibrated_facts(options));
  const MeasureOptions measure = {workers, allowed_processors(), calibrate.seconds, calibrate.pool_bytes};
  Measurement measured = measure_cpu(out.before, measure);
  out.calibration = {query_machine_identity(out.before), workers, std::move(measured.facts)};
  out.absent = std::move(measured.absent);
  out.unsteady = measured.unsteady;
  return out;
}

}  // namespace lathe
