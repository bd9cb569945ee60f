// Memory on huge pages, if the system grants them.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory>

namespace lathe::bench {

constexpr size_t kHugePage = size_t{2} << 20;

// Asks for huge pages in memory that was not written yet. The system refuses it for memory that is too small.
inline void use_huge_pages(void* data, size_t bytes) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kHugePage * kHugePage;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

struct FreeMemory {
  void operator()(char* data) const { std::free(data); }
};
using HugeMemory = std::unique_ptr<char, FreeMemory>;

inline HugeMemory allocate_huge(size_t bytes) {
  const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  HugeMemory memory(static_cast<char*>(std::aligned_alloc(kHugePage, rounded)));
  if (memory) use_huge_pages(memory.get(), rounded);
  return memory;
}

}  // namespace lathe::bench
