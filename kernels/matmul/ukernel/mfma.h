// AMD, CDNA: how an operand that lies along K gets through registers into LDS, and from there to a wave's
// operands.
#include "multi_mma.h"

#define DEPTH_BYTES 64  // of a stage, along K: what a lane group's chunks of 16 bytes hold together
#define STAGES 2
#define ELEMENT 2  // bytes

typedef uint32_t chunk __attribute__((vector_size(16)));
typedef float sums4 __attribute__((vector_size(16)));

// Nobody reads LDS any more that was to be read, and what was to be written is. Loads from memory stay under
// way.
static INLINE void barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// A thread's chunk of rows that lie threads / 4 apart, of the block of K at `k0`. Rows beyond the operand
// repeat its last one, chunks beyond K a row's first; of an aligned chunk one element of which exists all
// lies in a page that exists.
static INLINE const GLOBAL char* source_of(const operand* x, int32_t thread, int32_t row, int32_t k0,
                                           int32_t depth) {
  const int32_t k = k0 + thread % 4 * (16 / ELEMENT), last = x->limit - 1;
  return x->data + ((row < last ? row : last) * x->pitch + (k < depth ? k : 0)) * ELEMENT;
}
// Ones where elements of that chunk exist. Put on where chunks are stored: at the load it would wait for it.
static INLINE chunk mask_of(int32_t thread, int32_t k0, int32_t depth) {
  const int32_t left = depth - (k0 + thread % 4 * (16 / ELEMENT));
  chunk mask;
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) mask[i] = left > 2 * i + 1 ? 0xffffffffu : left > 2 * i ? 0xffffu : 0;
  return mask;
}
