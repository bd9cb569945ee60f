#include "runtime/cpu/calibrate/read_loops.h"

namespace lathe {
namespace {

constexpr size_t kLine = 64, kAhead = 2048;
constexpr size_t kBurst = 4 * kLine;  // bytes of a stream in one iteration, to hide the cost of the loop

#if defined(__x86_64__)
struct Zmm {
  static void read_line(const char* p) { asm volatile("vmovups (%0), %%zmm0" ::"r"(p) : "xmm0", "memory"); }
  static void end() { asm volatile("vzeroupper" ::: "memory"); }
};
struct Ymm {
  static void read_line(const char* p) {
    asm volatile("vmovups (%0), %%ymm0\n\tvmovups 32(%0), %%ymm1" ::"r"(p) : "xmm0", "xmm1", "memory");
  }
  static void end() { asm volatile("vzeroupper" ::: "memory"); }
};
struct Xmm {
  static void read_line(const char* p) {
    asm volatile(
        "movups (%0), %%xmm0\n\tmovups 16(%0), %%xmm1\n\tmovups 32(%0), %%xmm2\n\tmovups 48(%0), %%xmm3" ::
            "r"(p)
        : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
  }
  static void end() {}
};
#elif defined(__aarch64__)
struct Neon {
  static void read_line(const char* p) {
    asm volatile("ldp q0, q1, [%0]\n\tldp q2, q3, [%0, #32]" ::"r"(p) : "v0", "v1", "v2", "v3", "memory");
  }
  static void end() {}
};
#endif

template <typename Vector, size_t kParts, bool kPrefetch>
void read(const char* data, size_t bytes) {
  const size_t part = bytes / kParts;
  for (size_t at = 0; at < part; at += kBurst) {
    for (size_t line = 0; line < kBurst; line += kLine) {
      for (size_t s = 0; s < kParts; ++s) {
        const char* p = data + s * part + at + line;
        if (kPrefetch) __builtin_prefetch(p + kAhead, 0, 3);
        Vector::read_line(p);
      }
    }
  }
  Vector::end();
}

template <typename Vector>
constexpr ReadLoops kLoops = {read<Vector, 1, false>, read<Vector, kStreams, false>,
                              read<Vector, kStreams, true>};

}  // namespace

#if defined(__x86_64__)
ReadLoops read_loops(const Target& target) {
  return target.has("avx512f") ? kLoops<Zmm> : target.has("avx2") ? kLoops<Ymm> : kLoops<Xmm>;
}
#elif defined(__aarch64__)
ReadLoops read_loops(const Target&) { return kLoops<Neon>; }
#endif

}  // namespace lathe
