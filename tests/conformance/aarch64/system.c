#include "system.h"

// include/uapi/asm-generic/unistd.h
enum { kSysRead = 63, kSysWrite = 64, kSysExit = 94, kSysUnmap = 215, kSysMap = 222, kSysProtect = 226 };

static int64_t call(int64_t number, int64_t a, int64_t b, int64_t c, int64_t d) {
  register int64_t x8 __asm__("x8") = number;
  register int64_t x0 __asm__("x0") = a;
  register int64_t x1 __asm__("x1") = b;
  register int64_t x2 __asm__("x2") = c;
  register int64_t x3 __asm__("x3") = d;
  register int64_t x4 __asm__("x4") = -1;  // mmap: no file
  register int64_t x5 __asm__("x5") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

static void leave(int64_t status) {
  for (;;) call(kSysExit, status, 0, 0, 0);
}

void fail(const char* text) {
  int64_t length = 0;
  while (text[length]) ++length;
  call(kSysWrite, 2, (int64_t)text, length, 0);
  call(kSysWrite, 2, (int64_t) "\n", 1, 0);
  leave(1);
  __builtin_unreachable();
}

void read_all(void* data, uint64_t bytes) {
  while (bytes > 0) {
    const int64_t n = call(kSysRead, 0, (int64_t)data, (int64_t)bytes, 0);
    if (n == 0) leave(0);
    if (n < 0) fail("runner: read failed");
    data = (char*)data + n;
    bytes -= (uint64_t)n;
  }
}

void write_all(const void* data, uint64_t bytes) {
  while (bytes > 0) {
    const int64_t n = call(kSysWrite, 1, (int64_t)data, (int64_t)bytes, 0);
    if (n <= 0) fail("runner: write failed");
    data = (const char*)data + n;
    bytes -= (uint64_t)n;
  }
}

char* map_pages(uint64_t bytes, int access) {
  enum { kPrivate = 2, kAnonymous = 0x20 };
  const int64_t at = call(kSysMap, 0, (int64_t)bytes, access, kPrivate | kAnonymous);
  if (at < 0 && at > -4096) fail("runner: no memory");
  return (char*)at;
}
void protect_pages(void* pages, uint64_t bytes, int access) {
  if (bytes > 0 && call(kSysProtect, (int64_t)pages, (int64_t)bytes, access, 0) != 0)
    fail("runner: mprotect failed");
}
void unmap_pages(void* pages, uint64_t bytes) { call(kSysUnmap, (int64_t)pages, (int64_t)bytes, 0, 0); }
