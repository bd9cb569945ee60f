#include "bare_task.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/cache.h"

namespace lathe::bench {

absl::StatusOr<std::unique_ptr<BareTask>> BareTask::load(const std::string& directory, const Dims& dims) {
  CacheOptions options;
  options.directory = directory;
  const std::unique_ptr<ArtifactCache> cache = make_cache(options);
  LATHE_ASSIGN_OR_RETURN(const CacheListing listing, cache->list());
  const std::vector<CacheEntryInfo>& entries = listing.entries;
  if (entries.size() != 1) {
    return absl::InternalError(
        absl::StrCat("bare call: ", directory, " holds ", entries.size(), " kernels, expected 1"));
  }
  LATHE_ASSIGN_OR_RETURN(const CacheResult found, cache->get(key_from_text(entries[0].key_text)));
  const Recipe& recipe = found.artifact->recipe;
  std::vector<std::string> symbols;
  for (const lathe::Step& step : recipe.steps) symbols.push_back(step.symbol);
  auto bare = std::make_unique<BareTask>();
  LATHE_ASSIGN_OR_RETURN(const std::vector<void*> entries_in_memory,
                         bare->loader_.link(found.artifact->code, symbols));

  LaunchConfig launch = make_launch_config(recipe, ProblemClass(), dims, 1);
  const VarValues values = var_values(dims, launch);
  for (size_t i = 0; i < recipe.steps.size(); ++i) {
    int64_t tasks = 1;
    for (const Formula& axis : recipe.steps[i].grid) tasks *= evaluate(axis, values);
    bare->steps_.push_back({reinterpret_cast<CpuTask>(entries_in_memory[i]), tasks});
  }
  const size_t workspace = static_cast<size_t>(round_up(evaluate(recipe.workspace_bytes, values), 64));
  const size_t scratch = static_cast<size_t>(evaluate(recipe.scratch_bytes_per_worker, values));
  bare->memory_.resize(workspace + scratch + 64);
  const auto base = (reinterpret_cast<uintptr_t>(bare->memory_.data()) + 63) / 64 * 64;
  ArgumentBlock& args = bare->arguments_;
  args.workspace = reinterpret_cast<void*>(base);
  args.scratch = reinterpret_cast<void*>(base + workspace);
  args.m = static_cast<int32_t>(dims.m);
  args.n = static_cast<int32_t>(dims.n);
  args.k = static_cast<int32_t>(dims.k);
  args.batch = static_cast<int32_t>(dims.batch);
  args.splits = launch.splits;
  args.k_chunk = launch.k_chunk;
  args.alpha = 1;
  return bare;
}

}  // namespace lathe::bench
