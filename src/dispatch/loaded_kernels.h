// The kernels that a device has loaded.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/fork_safe_mutex.h"
#include "base/per_process.h"
#include "core/artifact.h"
#include "core/key.h"
#include "runtime/driver.h"

namespace lathe {

// Thread-safe. Kernels stay loaded until the device closes.
class LoadedKernels {
 public:
  // Null if the key's kernel is not loaded.
  const LoadedKernel* find(const Key& key) const;
  // Returns the kernel that is kept for the key. If two threads load the same key, the first kernel is kept and
  // the other object is deleted; the driver keeps its code until the device closes.
  const LoadedKernel* insert(const Key& key, std::unique_ptr<LoadedKernel> kernel);

  // Remembers a freshly compiled artifact that the device refuses. Compiling it again would give the same code.
  void note_refused(const Key& key, std::shared_ptr<const Artifact> fresh);
  bool was_refused(const Key& key, const std::shared_ptr<const Artifact>& artifact) const;
  // Held while the key is compiled again because the device refused a stored artifact. Other keys may share the
  // lock. A child of a fork has locks of its own.
  std::unique_lock<std::mutex> lock_compiling_again(const Key& key);

 private:
  mutable ForkSafeMutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<LoadedKernel>> kernels_;    // by key text; under mutex_
  std::unordered_map<std::string, std::shared_ptr<const Artifact>> refused_;  // by key text; under mutex_
  PerProcess<std::array<std::mutex, 16>> compiling_again_;
};

}  // namespace lathe
