#include "dispatch/loaded_kernels.h"

#include <functional>
#include <utility>

namespace lathe {

const LoadedKernel* LoadedKernels::find(const Key& key) const {
  const ForkSafeLock lock(mutex_);
  const auto it = kernels_.find(key.text);
  return it == kernels_.end() ? nullptr : it->second.get();
}

const LoadedKernel* LoadedKernels::insert(const Key& key, std::unique_ptr<LoadedKernel> kernel) {
  const ForkSafeLock lock(mutex_);
  return kernels_.try_emplace(key.text, std::move(kernel)).first->second.get();
}

void LoadedKernels::note_refused(const Key& key, std::shared_ptr<const Artifact> fresh) {
  const ForkSafeLock lock(mutex_);
  refused_[key.text] = std::move(fresh);
}

bool LoadedKernels::was_refused(const Key& key, const std::shared_ptr<const Artifact>& artifact) const {
  const ForkSafeLock lock(mutex_);
  const auto it = refused_.find(key.text);
  return it != refused_.end() && it->second == artifact;
}

std::unique_lock<std::mutex> LoadedKernels::lock_compiling_again(const Key& key) {
  std::array<std::mutex, 16>& locks = compiling_again_.get();
  return std::unique_lock<std::mutex>(locks[std::hash<std::string>()(key.text) % locks.size()]);
}

}  // namespace lathe
