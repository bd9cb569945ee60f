#include "runtime/gpu/kernel.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "core/assembler_log.h"
#include "runtime/gpu/jit_log.h"
#include "runtime/gpu/scopes.h"

namespace lathe::gpu {
namespace {

constexpr int64_t kSharedByDefault = 48 << 10;  // static plus dynamic; more must be requested
constexpr int32_t kPortableCluster = 8, kMaxCluster = 16;
// CUDA limits the workgroups of a grid to 31 bits. HIP's dispatch packet also limits its threads to 32 bits.
constexpr int64_t kMaxWorkgroups = INT32_MAX, kMaxThreads = UINT32_MAX;

absl::Status refusal(absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("cannot load kernel: ", cause));
}

absl::Status check_block(const Step& step, const KernelLimits& limits) {
  const int64_t threads = int64_t{step.block[0]} * step.block[1] * step.block[2];
  if (step.block[0] < 1 || step.block[1] < 1 || step.block[2] < 1 || step.block[2] > 64 ||
      step.block[0] > limits.workgroup_size || step.block[1] > limits.workgroup_size ||
      threads > limits.workgroup_size) {
    return refusal(absl::StrCat("step ", step.symbol, ": a workgroup of ", step.block[0], " by ",
                                step.block[1], " by ", step.block[2], " exceeds ", limits.workgroup_size,
                                " threads"));
  }
  const int64_t cluster = int64_t{step.cluster[0]} * step.cluster[1] * step.cluster[2];
  if (step.cluster[0] < 1 || step.cluster[1] < 1 || step.cluster[2] < 1 || cluster > kMaxCluster ||
      (cluster > 1 && !limits.has_clusters)) {
    return refusal(absl::StrCat("step ", step.symbol, ": ", limits.arch, " has no cluster of ",
                                step.cluster[0], " by ", step.cluster[1], " by ", step.cluster[2]));
  }
  return absl::OkStatus();
}

absl::Status check_step(const Step& step, CodeFormat format, const KernelLimits& limits) {
  const StepKind wanted = format == CodeFormat::kNone ? StepKind::kHostExtern : StepKind::kGpuKernel;
  if (step.kind != wanted) {
    return refusal(absl::StrCat(
        "step ", step.symbol, " has kind ", static_cast<int32_t>(step.kind), ", but a GPU runs only ",
        wanted == StepKind::kGpuKernel ? "gpu_kernel (2)" : "host_extern (3) without code"));
  }
  if (step.symbol.empty()) return refusal("a step has no symbol");
  if (step.argument_bytes != parameter_bytes(step.tensor_maps.size())) {
    return refusal(absl::StrCat("step ", step.symbol, " takes ", step.argument_bytes,
                                " bytes of parameters, but ", parameter_bytes(step.tensor_maps.size()),
                                " are passed"));
  }
  for (const std::string& attribute : step.attributes) {
    if (attribute != "pdl")
      return refusal(
          absl::StrCat("step ", step.symbol, " asks for the unknown launch attribute ", attribute));
    if (!limits.has_clusters)
      return refusal(
          absl::StrCat("step ", step.symbol, ": ", limits.arch, " has no programmatic dependent launch"));
  }
  if (step.tensor_maps.size() > Kernel::kMaxMaps)
    return refusal(absl::StrCat("step ", step.symbol, " has ", step.tensor_maps.size(), " tensor maps"));
  LATHE_RETURN_IF_ERROR(check_block(step, limits));
  for (const Formula* formula : {&step.grid[0], &step.grid[1], &step.grid[2], &step.dynamic_shared_memory}) {
    const absl::Status status = check_formula(*formula, absl::StrCat("step ", step.symbol));
    if (!status.ok()) return refusal(status.message());
  }
  return absl::OkStatus();
}

absl::Status check_artifact(const Artifact& artifact, const KernelLimits& limits) {
  const Recipe& recipe = artifact.recipe;
  const bool ours = limits.is_rocm
                        ? artifact.format == CodeFormat::kHsaco
                        : artifact.format == CodeFormat::kCubin || artifact.format == CodeFormat::kPtx;
  if (!ours && artifact.format != CodeFormat::kNone)
    return refusal(absl::StrCat("code format ", name_of(artifact.format),
                                limits.is_rocm ? " is not hsaco" : " is neither cubin nor PTX"));
  if (recipe.version != Recipe::kVersion)
    return refusal(absl::StrCat("recipe version ", recipe.version, ", but this library reads version ",
                                Recipe::kVersion));
  if (recipe.steps.empty()) return refusal("the recipe has no steps");
  if (recipe.steps.size() > Kernel::kMaxSteps) {
    return refusal(
        absl::StrCat("the recipe has ", recipe.steps.size(), " steps, at most ", Kernel::kMaxSteps));
  }
  if (recipe.pointer_alignment < 1 || (recipe.pointer_alignment & (recipe.pointer_alignment - 1)) != 0) {
    return refusal(absl::StrCat("pointer alignment ", recipe.pointer_alignment, " is not a power of two"));
  }
  for (const Step& step : recipe.steps) LATHE_RETURN_IF_ERROR(check_step(step, artifact.format, limits));
  return absl::OkStatus();
}

absl::StatusOr<Kernel::LaunchStep> make_step(const Step& step, const KernelLimits& limits) {
  Kernel::LaunchStep out;
  for (size_t i = 0; i < 3; ++i) {
    out.block[i] = static_cast<unsigned>(step.block[i]);
    out.cluster[i] = static_cast<unsigned>(step.cluster[i]);
    out.clustered |= step.cluster[i] != 1;
  }
  out.programmatic = !step.attributes.empty();
  out.most_x = limits.is_rocm ? std::min(kMaxWorkgroups, kMaxThreads / step.block[0]) : kMaxWorkgroups;
  out.sizes = FlatFormulas({step.grid[0], step.grid[1], step.grid[2], step.dynamic_shared_memory});
  for (const TensorMap& map : step.tensor_maps) {
    LATHE_ASSIGN_OR_RETURN(TensorMapPlan plan, plan_tensor_map(map));
    out.maps.push_back(plan);
  }
  return out;
}

}  // namespace

KernelLimits limits_of(const DeviceFacts& facts) {
  KernelLimits limits;
  limits.arch = facts.target.arch;
  limits.is_rocm = facts.target.backend == Backend::kRocm;
  limits.workgroup_size = static_cast<int64_t>(facts.fact_or("max_workgroup_size", 1024));
  limits.shared_bytes = static_cast<int64_t>(facts.fact_or("shared_memory_bytes", kSharedByDefault));
  int32_t capability = 0;  // 90 for "sm_90a"
  absl::string_view digits = facts.target.arch;
  if (absl::ConsumePrefix(&digits, "sm_")) {
    while (!digits.empty() && !absl::ascii_isdigit(static_cast<unsigned char>(digits.back())))
      digits.remove_suffix(1);
    if (!absl::SimpleAtoi(digits, &capability)) capability = 0;
  }
  limits.has_clusters = capability >= 90;
  return limits;
}

Kernel::Kernel(const Artifact& artifact, const Library& library, const Driver* owner)
    : LoadedKernel(artifact.recipe),
      library_(library),
      owner_(owner),
      format_(artifact.format),
      code_(artifact.code) {}

absl::StatusOr<std::unique_ptr<LoadedKernel>> Kernel::load(const Artifact& artifact, const Library& library,
                                                           const Contexts& contexts,
                                                           const KernelLimits& limits,
                                                           ExternalLibraries& externals,
                                                           const Driver* owner) {
  LATHE_RETURN_IF_ERROR(check_artifact(artifact, limits));
  std::unique_ptr<Kernel> kernel(new Kernel(artifact, library, owner));
  kernel->shared_limit_ = limits.shared_bytes;
  for (const Step& step : artifact.recipe.steps) {
    absl::StatusOr<LaunchStep> made = make_step(step, limits);
    if (!made.ok()) return refusal(absl::StrCat("step ", step.symbol, ": ", made.status().message()));
    kernel->steps_.push_back(*std::move(made));
  }
  ContextScope scope(library);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts.primary()));
  if (kernel->is_external())
    for (size_t i = 0; i < kernel->steps_.size(); ++i) {
      LATHE_ASSIGN_OR_RETURN(kernel->steps_[i].external, externals.bind(artifact.recipe.steps[i]));
    }
  std::string info;
  LATHE_ASSIGN_OR_RETURN(const Loaded* loaded, kernel->load_into(contexts.primary(), &info));
  kernel->messages_ = parse_assembler_log(info).messages;
  const bool asks = library.platform().is_cuda && !kernel->is_external();
  for (size_t i = 0; asks && i < kernel->steps_.size(); ++i)
    LATHE_RETURN_IF_ERROR(
        library.check(library.call().function_attribute(&kernel->local_bytes_[i], kFunctionLocalBytes,
                                                        loaded->functions[i]),
                      "asking for the local memory"));
  return std::unique_ptr<LoadedKernel>(std::move(kernel));
}

Kernel::~Kernel() {
  if (is_external()) return;  // it has no module
  for (const std::unique_ptr<Loaded>& loaded : modules_) {
    ContextScope scope(library_);
    if (!scope.enter(loaded->context).ok()) continue;  // the context is gone, and the module with it
    const RelaxedCapture relaxed(library_);
    library_.call().module_unload(loaded->module);
  }
}

absl::StatusOr<const Kernel::Loaded*> Kernel::load_into(Context context, std::string* info) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const Loaded* loaded = in(context)) return loaded;
  auto loaded = std::make_unique<Loaded>();
  loaded->context = context;
  if (!is_external()) {
    LATHE_RETURN_IF_ERROR(load_module(loaded.get(), info));
  } else if (!modules_.empty()) {
    return absl::UnavailableError("an external library works in the device's primary context only");
  }
  loaded->next = loaded_.load(std::memory_order_relaxed);
  modules_.push_back(std::move(loaded));
  loaded_.store(modules_.back().get(), std::memory_order_release);
  return modules_.back().get();
}

absl::Status Kernel::load_module(Loaded* loaded, std::string* info) const {
  const RelaxedCapture relaxed(library_);
  const Calls& call = library_.call();
  JitLog log(JitLog::kForLoading);
  const unsigned options = library_.platform().is_cuda ? log.option_count() : 0;
  if (const int result =
          call.module_load(&loaded->module, code_.data(), options, log.options(), log.values());
      result != kSuccess) {
    const std::string text = absl::StrCat("loading ", name_of(format_), " of ", symbol(0), ": ",
                                          library_.describe(result), log.suffix());
    if (library_.row(result).refuses_code) return absl::DataLossError(text);
    return absl::Status(library_.row(result).code, text);
  }
  *info = std::string(log.info());
  absl::Status status;
  for (size_t i = 0; i < steps_.size() && status.ok(); ++i) {
    const int result = call.module_function(&loaded->functions[i], loaded->module, symbol(i).c_str());
    if (result == kNotFound) {
      status = refusal(absl::StrCat("its code has no function ", symbol(i)));
    } else {
      status = library_.check(result, "finding a kernel's function");
    }
    if (status.ok()) status = prepare_function(i, loaded->functions[i]);
  }
  if (!status.ok()) call.module_unload(loaded->module);
  return status;
}

// Sets the function's attributes and checks its limits. Drivers load functions lazily; reading an attribute
// forces that now, while no stream waits for it.
absl::Status Kernel::prepare_function(size_t index, Function function) const {
  const Calls& call = library_.call();
  const LaunchStep& step = steps_[index];
  const auto failed = [&](int result, absl::string_view what) {
    return library_.error(result, absl::StrCat(what, " of ", symbol(index)));
  };
  if (call.function_load != nullptr) {
    if (const int result = call.function_load(function); result != kSuccess)
      return failed(result, "loading the code");
  }
  int threads = 0, shared = 0;
  if (const int r = call.function_attribute(&threads, kFunctionMaxThreadsPerBlock, function); r != kSuccess)
    return failed(r, "asking for the workgroup limit");
  if (const int r = call.function_attribute(&shared, kFunctionSharedBytes, function); r != kSuccess)
    return failed(r, "asking for the shared memory");
  const int64_t wanted = int64_t{step.block[0]} * step.block[1] * step.block[2];
  if (wanted > threads) {
    return refusal(absl::StrCat("step ", symbol(index), ": a workgroup of ", wanted,
                                " threads, but its code (registers) allows only ", threads));
  }
  if (!step.sizes.is_constant(3) || step.sizes.value(3, {}) != 0) {
    const int64_t most = shared_limit_ - shared;
    const int64_t bytes = step.sizes.is_constant(3) ? step.sizes.value(3, {}) : most;
    if (bytes < 0 || bytes > most) {
      return refusal(absl::StrCat("step ", symbol(index), ": shared memory ", shared, " + ", bytes, " > ",
                                  shared_limit_));
    }
    if (bytes + shared > kSharedByDefault && library_.platform().is_cuda) {
      const int r =
          call.function_set_attribute(function, kFunctionMaxDynamicSharedBytes, static_cast<int>(bytes));
      if (r != kSuccess) return failed(r, absl::StrCat("allowing ", bytes, " bytes of shared memory"));
    }
  }
  if (step.cluster[0] * step.cluster[1] * step.cluster[2] > kPortableCluster) {
    const int r = call.function_set_attribute(function, kFunctionNonPortableClusterAllowed, 1);
    if (r != kSuccess) return failed(r, "allowing a cluster of more than 8");
  }
  return call.function_parameter == nullptr ? absl::OkStatus() : check_parameters(index, function);
}

// Compares the code's own parameters with the argument block. After a mismatch the kernel would read wrong
// values.
absl::Status Kernel::check_parameters(size_t index, Function function) const {
  const Calls& call = library_.call();
  const size_t fields = std::size(kArgumentFields), maps = steps_[index].maps.size();
  for (size_t i = 0; i <= fields + maps; ++i) {
    size_t offset = 0, bytes = 0;
    const int result = call.function_parameter(function, i, &offset, &bytes);
    if (i == fields + maps) {
      if (result != kSuccess) break;
      return refusal(
          absl::StrCat("step ", symbol(index), " has more than the ", i, " parameters that are passed"));
    }
    const bool is_map = i >= fields;  // the code decides where a map is
    size_t wanted_bytes = kTensorMapBytes;
    if (!is_map) {
      const ArgumentKind kind = kArgumentFields[i].kind;
      wanted_bytes = kind == ArgumentKind::ptr || kind == ArgumentKind::i64 ? 8 : 4;
    }
    const size_t wanted_offset = is_map ? offset : kArgumentFields[i].offset;
    if (result != kSuccess || offset != wanted_offset || bytes != wanted_bytes) {
      return refusal(absl::StrCat("step ", symbol(index), ": parameter ", i, " is ",
                                  result != kSuccess ? "missing" : absl::StrCat(bytes, " bytes at ", offset),
                                  ", but ", wanted_bytes, " bytes",
                                  is_map ? "" : absl::StrCat(" at ", wanted_offset), " are passed"));
    }
  }
  return absl::OkStatus();
}

}  // namespace lathe::gpu
