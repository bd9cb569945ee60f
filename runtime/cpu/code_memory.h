// The memory that linked code lies in. No page is ever writable and executable at once.
#pragma once

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include "absl/status/status.h"

namespace lathe {

// Code is linked in anonymous memory, which then becomes executable. Where the system forbids that
// (PR_SET_MDWE, SELinux's execmem), a file in memory with the same bytes is mapped in its place, executable
// from the start.
//
// Not thread-safe: a linking session has one to itself.
class CodeMemory final : public llvm::jitlink::JITLinkMemoryManager {
 public:
  void allocate(const llvm::jitlink::JITLinkDylib* library, llvm::jitlink::LinkGraph& graph,
                OnAllocatedFunction done) override;
  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) override;
  using JITLinkMemoryManager::allocate;
  using JITLinkMemoryManager::deallocate;

  // Why the last allocation failed, if it did, once: kUnavailable with the system's causes where code may
  // not be executable, kResourceExhausted where memory is short.
  absl::Status take_failure();

 private:
  class InFlight;
  llvm::Error fail(absl::Status cause);

  absl::Status failure_;
};

}  // namespace lathe
