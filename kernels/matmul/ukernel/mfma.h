// AMD, CDNA: copies a K-contiguous operand through registers into LDS.
#include "multi_mma.h"

#define DEPTH_BYTES 64  // bytes of K in a stage: a chunk of 16 for each of four groups of lanes
#define STAGES 2
#define ELEMENT 2  // bytes of an element

typedef uint32_t chunk __attribute__((vector_size(16)));
typedef float sums4 __attribute__((vector_size(16)));

// Waits until every thread has finished its reads and writes of LDS. Loads from global memory stay in flight.
static INLINE void barrier(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// The address of a thread's chunk in row `row` of the K block at `k0`. Rows beyond the operand repeat its
// last row; chunks beyond K repeat the row's first chunk. A chunk with at least one existing element is safe
// to read, because an aligned chunk does not cross a page.
static INLINE const GLOBAL char* source_of(const operand* x, int32_t thread, int32_t row, int32_t k0,
                                           int32_t depth) {
  const int32_t k = k0 + thread % 4 * (16 / ELEMENT), last = x->limit - 1;
  return x->data + ((row < last ? row : last) * x->pitch + (k < depth ? k : 0)) * ELEMENT;
}
// Ones in the elements of that chunk that exist. The mask is applied where chunks are stored; applying it
// right after the load would wait for the load.
static INLINE chunk mask_of(int32_t thread, int32_t k0, int32_t depth) {
  const int32_t left = depth - (k0 + thread % 4 * (16 / ELEMENT));
  chunk mask;
#pragma clang loop unroll(full)
  for (int i = 0; i < 4; ++i) mask[i] = left > 2 * i + 1 ? 0xffffffffu : left > 2 * i ? 0xffffu : 0;
  return mask;
}
