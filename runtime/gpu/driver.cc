#include "runtime/gpu/driver.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/gpu/assemble.h"
#include "runtime/gpu/check_pointers.h"
#include "runtime/gpu/contexts.h"
#include "runtime/gpu/kernel.h"
#include "runtime/gpu/launch_memory.h"
#include "runtime/gpu/memory.h"
#include "runtime/gpu/scopes.h"
#include "runtime/gpu/sub_batch.h"

namespace lathe::gpu {
namespace {

// The limit of a grid in y and z (for x see Kernel::LaunchStep::most_x): 65535 on every CUDA device, 65536
// with HIP.
constexpr int64_t kMaxGridYZ = 65535;

[[gnu::cold]] absl::Status refusal(const Launch& launch, absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("launch m=", launch.dims.m, " n=", launch.dims.n, " k=",
                                                 launch.dims.k, " batch=", launch.dims.batch, ": ", cause));
}

struct Grid {
  int64_t x, y, z;
  bool empty() const { return x <= 0 || y <= 0 || z <= 0; }
  bool fits(const Kernel::LaunchStep& step) const {
    return x <= step.most_x && y <= kMaxGridYZ && z <= kMaxGridYZ;
  }
};
Grid grid_of(const Kernel::LaunchStep& step, const VarValues& sizes) {
  return {step.sizes.value(0, sizes), step.sizes.value(1, sizes), step.sizes.value(2, sizes)};
}

LaunchShape shape_of(const Kernel::LaunchStep& step, const Grid& grid, const VarValues& sizes) {
  return {{static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y), static_cast<unsigned>(grid.z)},
          static_cast<unsigned>(step.sizes.value(3, sizes)),
          true};
}

// The parameters of a launch. The driver copies them before the launch call returns.
struct Parameters {
  ArgumentBlock args;
  EncodedTensorMap maps[Kernel::kMaxMaps];

  // A pointer to each parameter, in the kernel's order.
  using Each = std::array<void*, std::size(kArgumentFields) + Kernel::kMaxMaps>;
  Each each() {
    Each pointers;
    auto next = pointers.begin();
    for (const ArgumentField& field : kArgumentFields)
      *next++ = reinterpret_cast<char*>(&args) + field.offset;
    for (EncodedTensorMap& map : maps) *next++ = &map;
    return pointers;
  }
};
static_assert(sizeof(EncodedTensorMap) == kTensorMapBytes);

class GpuDriver final : public Driver {
 public:
  GpuDriver(Library library, DeviceFacts facts, Device device, std::string name, const DriverOptions& options)
      : library_(std::move(library)),
        facts_(std::move(facts)),
        device_(device),
        name_(std::move(name)),
        validate_(options.validate),
        logger_(options.logger),
        limits_(limits_of(facts_)) {}
  absl::Status retain_context() {
    LATHE_ASSIGN_OR_RETURN(Contexts contexts, Contexts::open(library_, device_));
    contexts_ = std::make_unique<Contexts>(std::move(contexts));
    memory_ = std::make_unique<Memory>(library_, *contexts_);
    launch_memory_ = std::make_unique<LaunchMemory>(library_, *contexts_);
    return absl::OkStatus();
  }

  const DeviceFacts& facts() const override { return facts_; }
  int32_t workers() const override { return 1; }
  absl::StatusOr<std::unique_ptr<LoadedKernel>> load(const Artifact& artifact) override {
    LATHE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> loaded,
                           Kernel::load(artifact, library_, *contexts_, limits_, externals_, this));
    warn_of_code(static_cast<const Kernel&>(*loaded));
    return loaded;
  }
  Artifact finish(Artifact artifact) override {
    return link_ptx(std::move(artifact), library_, *contexts_, logger_);
  }
  absl::Status launch(const Launch& launch) override;
  LaunchShape launch_shape(const LoadedKernel& loaded, const LaunchConfig& config,
                           const Dims& dims) const override {
    const auto& kernel = static_cast<const Kernel&>(loaded);
    if (kernel.is_external() || kernel.steps().size() != 1) return {};
    const VarValues sizes = var_values(dims, config);
    const Grid grid = grid_of(kernel.steps()[0], sizes);
    if (grid.empty() || !grid.fits(kernel.steps()[0])) return {};
    return shape_of(kernel.steps()[0], grid, sizes);
  }
  absl::Status launch_slice(const Launch&, const Slice&) override {
    return absl::UnimplementedError("slices are supported on the CPU only");
  }
  size_t workspace_bytes(const LoadedKernel&, const LaunchConfig& config, int32_t) const override {
    return workspace_end(config) + config.counters * sizeof(uint32_t);
  }
  DeviceMemory& memory() override { return *memory_; }
  std::vector<ExternalFound> find_externals() override { return externals_.find(); }
  absl::StatusOr<bool> is_capturing(void* stream) override;
  absl::Status with_workspace(void* stream, size_t bytes,
                              absl::FunctionRef<absl::Status(char* memory)> body) override;
  absl::Status reserve(size_t workspace_bytes, size_t counters) override {
    return launch_memory_->reserve({workspace_bytes, counters});
  }

 private:
  // Where one launch runs and what it may use.
  struct Site {
    Context context = nullptr;
    LaunchMemory::StreamState* stream = nullptr;  // null if the launch does not need it
    const Kernel::Loaded* loaded = nullptr;
  };

  // In a caller's workspace the counters come after the partial results; this is where the results end.
  static size_t workspace_end(const LaunchConfig& config) {
    constexpr size_t mask = LaunchMemory::kAlignment - 1;
    return config.workspace_bytes > SIZE_MAX / 2 ? SIZE_MAX / 2 : (config.workspace_bytes + mask) & ~mask;
  }
  // Kernels are planned to keep everything in registers. If one does not, the assembler did something else
  // than planned, and the kernel is slow.
  void warn_of_code(const Kernel& kernel) const {
    for (const std::string& message : kernel.messages())
      logger_.log(LogLevel::kWarning, absl::StrCat(name_, ": assembling PTX: ", message));
    for (size_t i = 0; i < kernel.steps().size(); ++i)
      if (kernel.local_bytes(i) > 0)
        logger_.log(LogLevel::kWarning,
                    absl::StrCat(name_, ": ", kernel.symbol(i), " has ", kernel.local_bytes(i),
                                 " bytes of local memory per thread: it spills registers"));
  }
  absl::Status zero_counters(DevicePointer counters, size_t count, const Launch& launch) {
    return library_.check(
        library_.call().fill_bytes(counters, 0, count * sizeof(uint32_t), library_.stream(launch.stream)),
        "zeroing the counters");
  }
  absl::Status check(const Launch& launch) const;
  absl::Status find_site(const Launch& launch, bool needs_memory, ContextScope* scope, Site* site);
  absl::Status take_memory(const Launch& launch, const LaunchNeed& need, const Site& site,
                           ArgumentBlock* args);
  absl::Status take_callers(const Launch& launch, const LaunchNeed& need, ArgumentBlock* args);
  absl::Status zero_again(const Launch& launch, const LaunchNeed& need, const ArgumentBlock& args,
                          absl::Status failure);
  absl::Status try_launch(const Launch& launch, int* result);
  absl::Status launch_steps(const Launch& launch, const Site& site, const Dims& dims, Parameters* parameters,
                            int* result);
  absl::Status launch_sub_batches(const Launch& launch, const Site& site, Parameters* parameters,
                                  int* result);
  absl::Status launch_step(const Launch& launch, const Site& site, size_t index, const LaunchShape& shape,
                           const VarValues& sizes, Parameters* parameters, int* result);

  const Library library_;
  const DeviceFacts facts_;
  const Device device_;
  const std::string name_;
  const bool validate_;
  const Logger logger_;
  const KernelLimits limits_;
  std::unique_ptr<Contexts> contexts_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<LaunchMemory> launch_memory_;         // freed before the context is released
  ExternalLibraries externals_{facts_.target.backend};  // also freed before it
};

absl::Status GpuDriver::check(const Launch& launch) const {
  if (launch.kernel == nullptr || launch.args == nullptr || launch.problem == nullptr)
    return refusal(launch, "no kernel, no class or no arguments");
  if (static_cast<const Kernel*>(launch.kernel)->owner() != this)
    return refusal(launch, "the kernel was loaded by another device");
  const ArgumentBlock& a = *launch.args;
  const uintptr_t mask = static_cast<uintptr_t>(launch.kernel->recipe().pointer_alignment) - 1;
  const auto bits = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  if (((bits(a.a) | bits(a.b) | bits(a.c) | bits(a.d) | bits(a.bias) | bits(a.residual) | bits(a.values)) &
       mask) != 0)
    return refusal(launch,
                   absl::StrCat("an operand is not aligned to the ", mask + 1, " bytes the kernel needs"));
  return absl::OkStatus();
}

absl::Status GpuDriver::find_site(const Launch& launch, bool needs_memory, ContextScope* scope, Site* site) {
  Context current = nullptr;
  LATHE_RETURN_IF_ERROR(library_.check(library_.current_context(&current), "asking for the current context"));
  const bool is_default = is_default_stream(launch.stream);
  if (is_default) {
    site->context = contexts_->primary();
    if (current != contexts_->primary()) {
      LATHE_ASSIGN_OR_RETURN(site->context, contexts_->of_stream(launch.stream, current));
    }
  }
  if (!is_default || needs_memory) {
    const LaunchMemory::Key key = LaunchMemory::key_of(launch.stream, site->context);
    site->stream = launch_memory_->find(key);
    if (__builtin_expect(site->stream == nullptr, 0)) {
      LATHE_ASSIGN_OR_RETURN(site->context, contexts_->of_stream(launch.stream, current));
      site->stream = launch_memory_->adopt(key, site->context);
    }
    site->context = site->stream->context();
  }
  LATHE_RETURN_IF_ERROR(scope->enter(site->context, current));
  const Kernel& kernel = *static_cast<const Kernel*>(launch.kernel);
  site->loaded = kernel.in(site->context);
  if (__builtin_expect(site->loaded == nullptr, 0)) {
    LATHE_ASSIGN_OR_RETURN(site->loaded, kernel.load_into(site->context));
  }
  return absl::OkStatus();
}

// Sets the block's pointers to the launch's workspace, counters and zeros.
absl::Status GpuDriver::take_memory(const Launch& launch, const LaunchNeed& need, const Site& site,
                                    ArgumentBlock* args) {
  const bool own = launch.workspace == nullptr;
  const LaunchNeed from_slab = own ? need : LaunchNeed{0, 0, need.zeros};
  if (own || need.zeros) {
    const LaunchMemory::Slab* slab = site.stream->slab();
    if (__builtin_expect(slab == nullptr || !slab->serves(from_slab), 0)) {
      LATHE_ASSIGN_OR_RETURN(slab, launch_memory_->grow(site.stream, from_slab));
    }
    if (own && need.workspace_bytes != 0) args->workspace = pointer(slab->workspace);
    if (own && need.counters != 0) args->counters = pointer(slab->counters);
    if (need.zeros) args->a = args->b = pointer(slab->zeros);
    const uint32_t doubts = own && need.counters != 0 ? site.stream->doubts() : 0;
    if (doubts != 0 && __builtin_expect(site.stream->in_doubt(doubts), 0)) {
      LATHE_RETURN_IF_ERROR(zero_counters(slab->counters, slab->counter_count, launch));
      site.stream->settle(doubts);
    }
  }
  return own ? absl::OkStatus() : take_callers(launch, need, args);
}

// A caller's zeroed workspace has partial results in its first half and counters in its second half, so that
// the results of one plan never overwrite the counters of another. In any other workspace the counters have
// unknown values and are zeroed here.
absl::Status GpuDriver::take_callers(const Launch& launch, const LaunchNeed& need, ArgumentBlock* args) {
  const bool zeroed = launch.workspace_is_zeroed;
  const size_t needed = workspace_bytes(*launch.kernel, launch.config, 1);
  const size_t usable = launch.workspace_bytes / (zeroed ? 2 : 1);
  if (usable < needed)
    return refusal(launch, absl::StrCat("workspace of ", launch.workspace_bytes, " bytes < ",
                                        zeroed ? "twice " : "", needed));
  if (need.workspace_bytes != 0) args->workspace = launch.workspace;
  if (need.counters == 0) return absl::OkStatus();
  const size_t before = zeroed ? usable & ~(LaunchMemory::kAlignment - 1) : workspace_end(launch.config);
  args->counters = static_cast<char*>(launch.workspace) + before;
  return zeroed ? absl::OkStatus() : zero_counters(address(args->counters), need.counters, launch);
}

absl::Status GpuDriver::launch_step(const Launch& launch, const Site& site, size_t index,
                                    const LaunchShape& shape, const VarValues& sizes, Parameters* parameters,
                                    int* result) {
  const Kernel& kernel = *static_cast<const Kernel*>(launch.kernel);
  const Kernel::LaunchStep& step = kernel.steps()[index];
  if (__builtin_expect(step.external != nullptr, 0))
    return step.external->run(parameters->args,
                              {1, library_.stream(launch.stream), launch.config.workspace_bytes});
  for (size_t i = 0; i < step.maps.size(); ++i)
    LATHE_RETURN_IF_ERROR(
        encode_tensor_map(library_, step.maps[i], parameters->args, sizes, &parameters->maps[i]));
  LaunchAttribute attributes[2];
  unsigned count = 0;
  if (step.clustered) {
    attributes[count].id = kAttributeClusterDimension;
    std::copy(step.cluster, step.cluster + 3, attributes[count++].cluster);
  }
  if (step.programmatic) {
    attributes[count].id = kAttributeProgrammaticStreamSerialization;
    attributes[count++].programmatic_stream_serialization = 1;
  }
  const LaunchConfiguration config = {
      shape.grid[0], shape.grid[1], shape.grid[2],      step.block[0],
      step.block[1], step.block[2], shape.shared_bytes, library_.stream(launch.stream),
      attributes,    count};
  // The argument block has the layout of the kernel's parameters, so it can be passed as one buffer. The
  // place of a tensor map is known only to the code (core/recipe.h), so the driver must place the parameters
  // then.
  const Function function = site.loaded->functions[index];
  if (step.maps.empty()) {
    size_t bytes = sizeof(ArgumentBlock);
    void* extra[] = {kBufferPointer, &parameters->args, kBufferSize, &bytes, kBufferEnd};
    *result = library_.launch(config, function, nullptr, extra);
  } else {
    Parameters::Each each = parameters->each();
    *result = library_.launch(config, function, each.data(), nullptr);
  }
  if (__builtin_expect(*result == kSuccess, 1)) return absl::OkStatus();
  return library_.error(*result, absl::StrCat("launching ", kernel.symbol(index)));
}

absl::Status GpuDriver::launch_steps(const Launch& launch, const Site& site, const Dims& dims,
                                     Parameters* parameters, int* result) {
  const Kernel& kernel = *static_cast<const Kernel*>(launch.kernel);
  const VarValues sizes = var_values(dims, launch.config);
  if (__builtin_expect(launch.shape != nullptr && launch.shape->known, 1))
    return launch_step(launch, site, 0, *launch.shape, sizes, parameters, result);
  Grid grids[Kernel::kMaxSteps];
  const size_t steps = kernel.steps().size();
  size_t launched = 0;
  for (size_t i = 0; i < steps; ++i) {
    grids[i] = grid_of(kernel.steps()[i], sizes);
    if (grids[i].empty()) continue;
    if (__builtin_expect(!grids[i].fits(kernel.steps()[i]), 0))
      return launch_sub_batches(launch, site, parameters, result);
    ++launched;
  }
  // An external library may put several kernels into the stream.
  std::unique_lock<std::mutex> sequence;
  // Grouped products are launched from with_workspace(), which holds the lock.
  if ((launched > 1 || kernel.is_external()) && parameters->args.workspace != nullptr &&
      !is_grouped(launch.problem->rows))
    sequence = std::unique_lock<std::mutex>(site.stream->sequence());
  for (size_t i = 0; i < steps; ++i) {
    if (grids[i].empty()) continue;
    LATHE_RETURN_IF_ERROR(launch_step(launch, site, i, shape_of(kernel.steps()[i], grids[i], sizes), sizes,
                                      parameters, result));
  }
  return absl::OkStatus();
}

// For a grid that exceeds a limit: launches the batch in parts, one after the other, each as if it were the
// whole.
[[gnu::cold]] absl::Status GpuDriver::launch_sub_batches(const Launch& launch, const Site& site,
                                                         Parameters* parameters, int* result) {
  const Kernel& kernel = *static_cast<const Kernel*>(launch.kernel);
  const auto fits = [&](int64_t batch) {
    const VarValues sizes = var_values({launch.dims.m, launch.dims.n, launch.dims.k, batch}, launch.config);
    return std::all_of(kernel.steps().begin(), kernel.steps().end(), [&](const Kernel::LaunchStep& step) {
      const Grid grid = grid_of(step, sizes);
      return grid.empty() || grid.fits(step);
    });
  };
  if (!fits(1) || is_grouped(launch.problem->rows)) {
    return absl::UnimplementedError(absl::StrCat(kernel.symbol(0), " needs a grid of more than ",
                                                 kernel.steps()[0].most_x, " by ", kMaxGridYZ, " by ",
                                                 kMaxGridYZ, " workgroups"));
  }
  // Grids grow with the batch. Find the largest part that fits by bisection.
  int64_t part = 1, beyond = launch.dims.batch;
  while (beyond - part > 1) {
    const int64_t middle = part + (beyond - part) / 2;
    (fits(middle) ? part : beyond) = middle;
  }
  const ArgumentBlock whole = parameters->args;
  for (int64_t first = 0; first < launch.dims.batch; first += part) {
    Dims dims = launch.dims;
    dims.batch = std::min(part, launch.dims.batch - first);
    parameters->args = sub_batch(whole, *launch.problem, first, dims.batch);
    LATHE_RETURN_IF_ERROR(launch_steps(launch, site, dims, parameters, result));
  }
  return absl::OkStatus();
}

[[gnu::cold]] absl::Status GpuDriver::zero_again(const Launch& launch, const LaunchNeed& need,
                                                 const ArgumentBlock& args, absl::Status failure) {
  const absl::Status zeroed = zero_counters(address(args.counters), need.counters, launch);
  if (zeroed.ok()) return failure;
  return absl::Status(
      failure.code(),
      absl::StrCat(failure.message(), "; the workspace is no longer zeroed: ", zeroed.message()));
}

absl::Status GpuDriver::try_launch(const Launch& launch, int* result) {
  const LaunchNeed need{launch.config.workspace_bytes, launch.config.counters, launch.zero_product};
  const bool needs_memory = need.workspace_bytes != 0 || need.counters != 0 || need.zeros;
  ContextScope scope(library_);
  Site site;
  LATHE_RETURN_IF_ERROR(find_site(launch, needs_memory, &scope, &site));
  if (__builtin_expect(validate_, 0)) LATHE_RETURN_IF_ERROR(check_pointers(library_, device_, launch));
  Parameters parameters;
  ArgumentBlock& args = parameters.args;
  args = *launch.args;
  args.workspace = args.counters = args.scratch = nullptr;
  if (needs_memory) LATHE_RETURN_IF_ERROR(take_memory(launch, need, site, &args));
  absl::Status status = launch_steps(launch, site, launch.dims, &parameters, result);
  if (__builtin_expect(!status.ok(), 0) && need.counters != 0) {
    if (launch.workspace != nullptr && launch.workspace_is_zeroed)
      return zero_again(launch, need, args, std::move(status));
    site.stream->doubt_counters();
  }
  return status;
}

absl::Status GpuDriver::launch(const Launch& launch) {
  LATHE_RETURN_IF_ERROR(check(launch));
  int result = kSuccess;
  absl::Status status = try_launch(launch, &result);
  if (__builtin_expect(status.ok(), 1)) return status;
  // The stream's handle may have been destroyed and given to a new stream of another context since it was
  // first seen.
  if (result == kSuccess || is_default_stream(launch.stream) || library_.row(result).loses_context)
    return status;
  const LaunchMemory::Key key = LaunchMemory::key_of(launch.stream, nullptr);
  const LaunchMemory::StreamState* known = launch_memory_->find(key);
  const absl::StatusOr<Context> context = contexts_->of_stream(launch.stream, nullptr);
  if (known == nullptr || !context.ok() || *context == known->context()) return status;
  launch_memory_->adopt(key, *context);
  return try_launch(launch, &result);
}

absl::Status GpuDriver::with_workspace(void* stream, size_t bytes,
                                       absl::FunctionRef<absl::Status(char* memory)> body) {
  ContextScope scope(library_);
  Context current = nullptr;
  LATHE_RETURN_IF_ERROR(library_.check(library_.current_context(&current), "asking for the current context"));
  LATHE_ASSIGN_OR_RETURN(const Context context, contexts_->of_stream(stream, current));
  LATHE_RETURN_IF_ERROR(scope.enter(context, current));
  const LaunchMemory::Key key = LaunchMemory::key_of(stream, context);
  LaunchMemory::StreamState* state = launch_memory_->find(key);
  if (state == nullptr || state->context() != context) state = launch_memory_->adopt(key, context);
  const LaunchNeed need{bytes, 0, false};
  const LaunchMemory::Slab* slab = state->slab();
  if (slab == nullptr || !slab->serves(need)) {
    LATHE_ASSIGN_OR_RETURN(slab, launch_memory_->grow(state, need));
  }
  const std::lock_guard<std::mutex> sequence(state->sequence());
  return body(static_cast<char*>(pointer(slab->workspace)));
}

absl::StatusOr<bool> GpuDriver::is_capturing(void* stream) {
  ContextScope scope(library_);
  Context current = nullptr;
  LATHE_RETURN_IF_ERROR(library_.check(library_.current_context(&current), "asking for the current context"));
  LATHE_ASSIGN_OR_RETURN(const Context context, contexts_->of_stream(stream, current));
  LATHE_RETURN_IF_ERROR(scope.enter(context, current));
  int status = kCaptureNone;
  const int result = library_.call().stream_capturing(library_.stream(stream), &status);
  // Work on the legacy default stream is forbidden while another stream is captured in the default mode.
  if (result != kSuccess && library_.row(result).code == kCapturingCode) return true;
  LATHE_RETURN_IF_ERROR(library_.check(result, "asking whether the stream is captured"));
  return status != kCaptureNone;
}

struct Opened {
  Library library;
  Device device;
  DeviceFacts facts;
};
absl::StatusOr<Opened> open_library(const Platform& platform, absl::string_view name) {
  LATHE_ASSIGN_OR_RETURN(const int ordinal, ordinal_of(platform, name));
  LATHE_ASSIGN_OR_RETURN(Library library, Library::open(platform, /*to_list=*/false));
  LATHE_ASSIGN_OR_RETURN(const std::vector<std::string> found, library.devices());
  if (static_cast<size_t>(ordinal) >= found.size())
    return unavailable(name, absl::StrCat("the driver finds ", found.size(), " device(s)"));
  Device device = 0;
  LATHE_RETURN_IF_ERROR(library.check(library.call().device_get(&device, ordinal), "finding the device"));
  absl::StatusOr<DeviceFacts> facts = platform.query(library, device);
  if (!facts.ok()) return unavailable(name, facts.status().message());
  facts->name = found[static_cast<size_t>(ordinal)];
  return Opened{std::move(library), device, *std::move(facts)};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> enumerate(const Platform& platform) {
  LATHE_ASSIGN_OR_RETURN(const Library library, Library::open(platform, /*to_list=*/true));
  LATHE_ASSIGN_OR_RETURN(const std::vector<std::string> found, library.devices());
  std::vector<std::string> names;
  for (size_t device = 0; device < found.size(); ++device)
    names.push_back(absl::StrCat(platform.prefix, ":", device));
  return names;
}

absl::StatusOr<DeviceFacts> query(const Platform& platform, absl::string_view name) {
  LATHE_ASSIGN_OR_RETURN(Opened opened, open_library(platform, name));
  return std::move(opened.facts);
}

absl::StatusOr<std::unique_ptr<lathe::Driver>> open(const Platform& platform, absl::string_view name,
                                                    const DriverOptions& options) {
  LATHE_ASSIGN_OR_RETURN(Opened opened, open_library(platform, name));
  auto& [library, device, facts] = opened;
  auto driver =
      std::make_unique<GpuDriver>(std::move(library), std::move(facts), device, std::string(name), options);
  LATHE_RETURN_IF_ERROR(driver->retain_context());
  return std::unique_ptr<lathe::Driver>(std::move(driver));
}

}  // namespace lathe::gpu
