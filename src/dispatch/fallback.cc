#include "dispatch/fallback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "compile_client/beside_library.h"
#include "core/amd_targets.h"
#include "core/generic.h"
#include "core/json.h"
#include "dispatch/device.h"
#include "dispatch/externals.h"
#include "dispatch/prepare.h"
#include "kernels/candidates_generic.h"
#include "request/request.h"

namespace lathe {
namespace {

// A bundle from another build has none of the keys that are looked up, so it is refused with a message.
absl::Status check_about(const Bundle& bundle) {
  const absl::StatusOr<Json> about = parse_json(bundle.about(), "about");
  if (!about.ok() || !about->is_object() || about->value("kind", "") != "fallback")
    return absl::DataLossError(absl::StrCat("bundle ", bundle.path(), ": it has no fallback kernels"));
  const std::string id = about->value("codegen", "");
  if (id == codegen_id()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("bundle ", bundle.path(), ": its codegen id ", id,
                                          " is not this library's ", codegen_id()));
}

// Loads an artifact from the bundle. If the driver has to assemble its PTX, the result is kept in the cache under
// the device's own target. CPU objects are not: the bundle is as fast as the cache. A call waits for this, so it
// takes no lock and no lease.
absl::StatusOr<std::unique_ptr<LoadedKernel>> finish_and_load(lathe_device& device, const ProblemClass& c,
                                                              const CompileConfig& config,
                                                              const Artifact& artifact) {
  if (artifact.format != CodeFormat::kPtx) return load_artifact(device, c, artifact);
  ArtifactCache& cache = *device.context.cache;
  const Key key = key_of(c, config, device.facts.target, codegen_id());
  if (const absl::StatusOr<CacheResult> kept = cache.get(key); kept.ok()) {
    auto loaded = load_artifact(device, c, *kept->artifact);
    if (!refuses_code(loaded.status())) return loaded;  // refused: a cubin for another driver version
  }
  Artifact finished = device.driver->finish(artifact);
  if (finished.format == CodeFormat::kPtx) return load_artifact(device, c, finished);
  return load_artifact(device, c, *cache.replace(key, std::move(finished)));
}

absl::Status load_error(const Bundle& bundle, const Target& target, const absl::Status& cause) {
  if (!refuses_code(cause))
    return absl::Status(cause.code(), absl::StrCat("bundle ", bundle.path(), ": ", cause.message()));
  std::string text =
      absl::StrCat("the device refuses the code of bundle ", bundle.path(), ": ", cause.message());
  // HIP 6.2 reads code objects up to version 5. Generic targets need version 6.
  if (is_amd_generic(target.arch))
    absl::StrAppend(&text, "; it is for ", target.arch,
                    " (code object version 6), which HIP supports from ROCm 6.4 on");
  return absl::UnavailableError(text);
}

// Null if the bundle has no kernel of the class.
absl::StatusOr<std::unique_ptr<LoadedKernel>> load_generic(lathe_device& device, const ProblemClass& c) {
  LATHE_ASSIGN_OR_RETURN(const Bundle* bundle, device.context.fallback.open());
  for (const Target& target : generic_targets_for(device.facts.target)) {
    const CompileConfig config = plan_generic(c, target);
    const absl::StatusOr<Artifact> artifact = bundle->read(key_of(c, config, target, codegen_id()));
    if (absl::IsNotFound(artifact.status())) continue;
    if (!artifact.ok()) return absl::UnavailableError(artifact.status().message());
    auto loaded = finish_and_load(device, c, config, *artifact);
    if (loaded.ok()) return loaded;
    return load_error(*bundle, target, loaded.status());
  }
  return std::unique_ptr<LoadedKernel>();
}

// Whether the grid fits every GPU in y. The driver splits z.
bool fits_grid(const Recipe& recipe, const Dims& dims) {
  constexpr int64_t kMaxY = 65535;
  const VarValues values = var_values(dims, LaunchConfig());
  return std::all_of(recipe.steps.begin(), recipe.steps.end(),
                     [&](const Step& step) { return evaluate(step.grid[1], values) <= kMaxY; });
}

absl::StatusOr<const DispatchEntry*> find_or_load(lathe_device& device, const DispatchKey& key) {
  if (const DispatchEntry* entry = device.generic.find(key)) return entry;
  const Key name = key_of(key.problem, {}, device.facts.target, codegen_id());
  LATHE_ASSIGN_OR_RETURN(std::unique_ptr<LoadedKernel> kernel, load_generic(device, key.problem));
  if (kernel == nullptr) return nullptr;
  DispatchEntry entry;
  entry.key = key;
  entry.kernel = device.kernels.insert(name, std::move(kernel));
  return device.generic.insert(entry);
}

}  // namespace

FallbackBundle::FallbackBundle(std::string path)
    : path_(path.empty() ? beside_library("lathe-fallback.bundle") : std::move(path)) {}

absl::StatusOr<const Bundle*> FallbackBundle::open() {
  const Bundle* held = bundle_.load(std::memory_order_acquire);
  if (held != nullptr) return held;
  absl::StatusOr<std::unique_ptr<Bundle>> bundle = Bundle::open(path_);
  absl::Status status = bundle.ok() ? check_about(**bundle) : bundle.status();
  if (!status.ok()) return absl::UnavailableError(absl::StrCat("fallback kernels: ", status.message()));
  // If two threads race to open it, the first wins.
  if (!bundle_.compare_exchange_strong(held, bundle->get(), std::memory_order_acq_rel)) return held;
  return bundle->release();
}

bool may_fall_back(const lathe_device& device, const Request& request) {
  ProblemClass c = request.key.problem;
  if (device.is_cpu) c.rows = Rows::kPlain;  // the host copies rows for a generic kernel
  return may_fall_back(c) && request.key.split_k == 0 && request.key.candidate == 0 &&
         request.key.external == ExternalUse::kDefault &&
         external_choice(device, request.key).use != ExternalUse::kRequire;
}

absl::StatusOr<const DispatchEntry*> find_generic(lathe_device& device, const Request& request) {
  DispatchKey key;
  key.problem = generic_class_of(request.key.problem);
  LATHE_ASSIGN_OR_RETURN(const DispatchEntry* entry, find_or_load(device, key));
  if (entry == nullptr || device.is_cpu || fits_grid(entry->kernel->recipe(), request.dims)) return entry;
  return nullptr;
}

}  // namespace lathe
