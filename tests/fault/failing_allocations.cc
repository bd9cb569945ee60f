#include "failing_allocations.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LATHE_SANITIZED
#endif
#endif

namespace {

std::atomic<int64_t> first{0}, last{0};  // range of failing allocations; 0: none fail
std::atomic<int64_t> count{0}, failures{0};

bool fails() {
  if (first.load(std::memory_order_relaxed) == 0) return false;
  const int64_t n = count.fetch_add(1, std::memory_order_relaxed) + 1;
  if (n < first.load(std::memory_order_relaxed) || n > last.load(std::memory_order_relaxed)) return false;
  failures.fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace

// GPU drivers' libraries are never found, because their behaviour when memory is short is not tested here.
extern "C" __attribute__((visibility("default"))) void* dlopen(const char* path, int flags) {
  using Open = void* (*)(const char*, int);
  static const Open open = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "dlopen"));
  const bool of_gpu =
      path != nullptr && (strstr(path, "libcuda") != nullptr || strstr(path, "libamdhip") != nullptr);
  return open(of_gpu ? "libof-no-driver.so" : path, flags);
}

namespace lathe::fault {

void fail_allocation(int64_t n, Fails how) {
  count = failures = 0;
  last = how == Fails::kOnce ? n : INT64_MAX;
  first = n;
}

int64_t stop_failing() {
  first = 0;
  return failures;
}

}  // namespace lathe::fault

#ifdef LATHE_SANITIZED

namespace {

void* allocate(std::size_t size) noexcept { return fails() ? nullptr : std::malloc(size); }
void* allocate(std::size_t size, std::align_val_t alignment) noexcept {
  const auto unit = static_cast<std::size_t>(alignment);
  return fails() ? nullptr : std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
}
void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return checked(allocate(size)); }
void* operator new[](std::size_t size) { return checked(allocate(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t a) { return checked(allocate(size, a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return checked(allocate(size, a)); }
void* operator new(std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(size, a);
}
void* operator new[](std::size_t size, std::align_val_t a, const std::nothrow_t&) noexcept {
  return allocate(size, a);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

#else

// The standard library's operator new calls these, too. They are visible so that libraries call them as well.
#pragma GCC visibility push(default)
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

static void* none() {
  errno = ENOMEM;
  return nullptr;
}
void* malloc(size_t size) { return fails() ? none() : __libc_malloc(size); }
void* calloc(size_t items, size_t size) { return fails() ? none() : __libc_calloc(items, size); }
void* realloc(void* p, size_t size) { return fails() ? none() : __libc_realloc(p, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return fails() ? none() : __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const got = fails() ? nullptr : __libc_memalign(alignment, size);
  if (got == nullptr) return ENOMEM;
  *memory = got;
  return 0;
}
}
#pragma GCC visibility pop

#endif
