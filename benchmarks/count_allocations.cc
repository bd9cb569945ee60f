#include "count_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// glibc's allocator, under the names that survive interposing malloc.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {
std::atomic<uint64_t> count{0};
void* counted(void* result) {
  count.fetch_add(1, std::memory_order_relaxed);
  return result;
}
}  // namespace

extern "C" {
__attribute__((visibility("default"))) void* malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
__attribute__((visibility("default"))) void* calloc(size_t n, size_t bytes) {
  return counted(__libc_calloc(n, bytes));
}
__attribute__((visibility("default"))) void* realloc(void* p, size_t bytes) {
  return counted(__libc_realloc(p, bytes));
}
__attribute__((visibility("default"))) void* memalign(size_t alignment, size_t bytes) {
  return counted(__libc_memalign(alignment, bytes));
}
__attribute__((visibility("default"))) void* aligned_alloc(size_t alignment, size_t bytes) {
  return counted(__libc_memalign(alignment, bytes));
}
__attribute__((visibility("default"))) int posix_memalign(void** out, size_t alignment, size_t bytes) {
  *out = counted(__libc_memalign(alignment, bytes));
  return *out ? 0 : ENOMEM;
}
}

namespace lathe::bench {
uint64_t allocations() { return count.load(std::memory_order_relaxed); }
}  // namespace lathe::bench
