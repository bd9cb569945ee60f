#include "cuda/bare_kernel.h"

#include <algorithm>
#include <stdexcept>

#include "cache/cache.h"

namespace lathe::bench {
namespace {

template <typename T>
T value_or_throw(absl::StatusOr<T> answer) {
  if (!answer.ok()) throw std::runtime_error(std::string(answer.status().message()));
  return *std::move(answer);
}

Artifact single_artifact(const std::string& directory) {
  CacheOptions options;
  options.directory = directory;
  const std::unique_ptr<ArtifactCache> cache = make_cache(options);
  const CacheListing listing = value_or_throw(cache->list());
  if (listing.entries.size() != 1)
    throw std::runtime_error("bare launch: " + directory + " holds " +
                             std::to_string(listing.entries.size()) + " kernels, expected 1");
  return *value_or_throw(cache->get(key_from_text(listing.entries[0].key_text))).artifact;
}

}  // namespace

BareKernel::BareKernel(const CudaDriver& driver, const std::string& directory, const Dims& dims)
    : launch_(reinterpret_cast<LaunchFunction>(driver.entry("cuLaunchKernelEx"))) {
  const Artifact artifact = single_artifact(directory);
  const Recipe& recipe = artifact.recipe;
  const LaunchConfig launch = make_launch_config(recipe, ProblemClass(), dims, 1);
  const VarValues sizes = var_values(dims, launch);
  if (recipe.steps.size() != 1 || !recipe.steps[0].tensor_maps.empty() || launch.splits != 1 ||
      evaluate(recipe.workspace_bytes, sizes) != 0 || evaluate(recipe.counters, sizes) != 0)
    throw std::runtime_error("bare launch: the kernel needs more than its arguments");
  const Step& step = recipe.steps[0];
  function_ = driver.load_kernel(artifact.code, step.symbol.c_str());
  unsigned count = 0;
  if (step.cluster != std::array<int32_t, 3>{1, 1, 1}) {
    attributes_[count].id = gpu::kAttributeClusterDimension;
    std::copy(step.cluster.begin(), step.cluster.end(), attributes_[count++].cluster);
  }
  if (!step.attributes.empty()) {
    attributes_[count].id = gpu::kAttributeProgrammaticStreamSerialization;
    attributes_[count++].programmatic_stream_serialization = 1;
  }
  const auto size = [&](const Formula& f) { return static_cast<unsigned>(evaluate(f, sizes)); };
  config_ = {size(step.grid[0]),
             size(step.grid[1]),
             size(step.grid[2]),
             static_cast<unsigned>(step.block[0]),
             static_cast<unsigned>(step.block[1]),
             static_cast<unsigned>(step.block[2]),
             size(step.dynamic_shared_memory),
             nullptr,
             attributes_,
             count};
  const std::array<void*, 5> extra = {gpu::kBufferPointer, &arguments_, gpu::kBufferSize, &bytes_,
                                      gpu::kBufferEnd};
  std::copy(extra.begin(), extra.end(), extra_);
  arguments_.m = static_cast<int32_t>(dims.m);
  arguments_.n = static_cast<int32_t>(dims.n);
  arguments_.k = static_cast<int32_t>(dims.k);
  arguments_.batch = static_cast<int32_t>(dims.batch);
  arguments_.splits = launch.splits;
  arguments_.k_chunk = launch.k_chunk;
  arguments_.alpha = 1;
}

}  // namespace lathe::bench
