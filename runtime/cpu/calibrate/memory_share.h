// How much memory a measurement may take, and a block of it.
#pragma once

#include <cstddef>

#include "runtime/cpu/cpu_system.h"

namespace lathe {

// Bytes of memory that the process can still use: the system's, or less if the process's cgroup (version 2, or
// version 1 at its usual place) or a group above it has a limit. SIZE_MAX if the system reports nothing.
size_t available_memory(const CpuSystem& system);

// Private memory of the system's ordinary pages, as most engines use. Released at the end.
class MemoryBlock {
 public:
  // Maps and touches `bytes`, but stops at the deadline (steady_clock, in seconds): size() may be smaller. It is 0 if
  // the system refuses the memory.
  MemoryBlock(size_t bytes, double deadline);
  ~MemoryBlock();
  MemoryBlock(const MemoryBlock&) = delete;
  MemoryBlock& operator=(const MemoryBlock&) = delete;

  const char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  char* data_ = nullptr;
  size_t mapped_ = 0, size_ = 0;
};

// Seconds of the steady clock.
double steady_seconds();

}  // namespace lathe
