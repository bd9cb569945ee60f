// The memory of linked code. No page is ever writable and executable at once.
#pragma once

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>

#include "absl/status/status.h"

namespace lathe {

// Links code in anonymous memory and then makes that memory executable. If the system forbids this
// (PR_SET_MDWE, SELinux's execmem), it is replaced by a mapping of a memory file with the same bytes, which
// is executable from the start.
//
// Not thread-safe: each linking session has its own.
class CodeMemory final : public llvm::jitlink::JITLinkMemoryManager {
 public:
  void allocate(const llvm::jitlink::JITLinkDylib* library, llvm::jitlink::LinkGraph& graph,
                OnAllocatedFunction done) override;
  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) override;
  using JITLinkMemoryManager::allocate;
  using JITLinkMemoryManager::deallocate;

  // Returns and clears the error of the last allocation; OK if it succeeded. kUnavailable: the system forbids
  // executable code; the message has its errors. kResourceExhausted: memory is short.
  absl::Status take_failure();

 private:
  class InFlight;
  llvm::Error fail(absl::Status cause);

  absl::Status failure_;
};

}  // namespace lathe
