// The interface of the multi-MMA inner kernels of GPUs, which kernels/matmul/mma/emit_ukernel.cc calls. Such
// a kernel computes a workgroup's tile: it does the staging, the barriers and the loop over all of K.
//
//   void f(a, a_pitch, rows, a_k_contiguous, b, b_pitch, columns, b_k_contiguous, depth, thread, shared,
//          sums)
//
// a, b: the tile's first row of A and first column of B, at its first k. rows, columns, depth: how much of the tile
// and of K exists, at least one row and column. pitch: the distance in elements between an operand's
// contiguous lines, each of which begins at a multiple of 16 bytes. shared: the workgroup's shared memory, as
// much as the row in candidates_ukernel.cc says; nobody else uses it, and the kernel does not use it after
// its last barrier. sums: the thread's accumulators, in the order of the instruction's fragments, row by row
// of its warp's part of the tile. All threads call the function together.
#include <stdint.h>

#define INLINE __attribute__((always_inline)) inline
#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#if defined(__AMDGCN__)
#define PRIVATE __attribute__((address_space(5)))
#else
#define PRIVATE
#endif

typedef struct {
  const GLOBAL char* data;
  int64_t pitch;
  int32_t limit;  // existing rows of A (columns of B)
  int32_t k_contiguous;
} operand;

// Layout of an operand's part of a stage in shared memory: rows of 16-byte chunks. A chunk's position in its row
// is XORed with bits of the row number, so that neither copies of rows nor reads of columns have bank conflicts.
typedef struct {
  uint32_t row_bytes, rows;
} layout;
static INLINE uint32_t place_of(layout l, uint32_t row, uint32_t chunk) {
  const uint32_t together = l.row_bytes < 128 ? 128 / l.row_bytes : 1;
  const uint32_t places = l.row_bytes < 128 ? l.row_bytes / 16 : 8;
  return row * l.row_bytes + (chunk ^ (row / together % places)) * 16;
}
