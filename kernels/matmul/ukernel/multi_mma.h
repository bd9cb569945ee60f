// What GPUs' multi-MMA inner kernels are called with (kernels/matmul/mma/emit_ukernel.cc). Each is a
// workgroup's whole work between its tile's offsets and its sums: staging, barriers and the loop over all of
// K are its own.
//
//   void f(a, a_pitch, rows, a_k_contiguous, b, b_pitch, columns, b_k_contiguous, depth, thread, shared,
//   sums)
//
// a and b point at the tile's first row of A and column of B at its first k; rows and columns are of the tile
// that exist, at least one, depth those of K. An operand's pitch is what its elements' neighbours that are
// not contiguous lie apart, in elements; every such line begins at a multiple of 16 bytes. `shared`: the
// workgroup's memory, as much as the table's row says, read and written by nobody else; after the last
// barrier nobody uses it. `sums`: what the thread has of the tile, in the order of the instruction's
// fragments, row by row of its warp's part. All threads call it together.
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
  int32_t limit;  // of its width (rows of A, columns of B) that exist
  int32_t k_contiguous;
} operand;

// A stage's part of an operand in shared memory, and where a chunk of 16 bytes of a row is: chunks of a row
// are exchanged by the row's number, so that neither copies of rows nor reads of columns meet in a bank.
typedef struct {
  uint32_t row_bytes, rows;
} layout;
static INLINE uint32_t place_of(layout l, uint32_t row, uint32_t chunk) {
  const uint32_t together = l.row_bytes < 128 ? 128 / l.row_bytes : 1;
  const uint32_t places = l.row_bytes < 128 ? l.row_bytes / 16 : 8;
  return row * l.row_bytes + (chunk ^ (row / together % places)) * 16;
}
