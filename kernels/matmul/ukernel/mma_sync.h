// CUDA, sm_80 and later: copies an operand to shared memory with cp.async, in chunks of 16 bytes, and loads
// fragments from there. A stage holds rows along K if the operand is K-contiguous, else rows along its width.
// Chunks are swizzled by the row number, so that neither copies nor ldmatrix have bank conflicts.
#include "multi_mma.h"

#define DEPTH_BYTES 64  // bytes of K in a stage
#define STAGES 4
#define STEP_BYTES 32  // bytes of K that one mma.sync multiplies

typedef struct {
  uint32_t r[4];
} matrices;

// Copies 16 bytes: the first `bytes` are read, the rest become zero.
static INLINE void copy(uint32_t to, const GLOBAL char* from, int32_t bytes) {
  __asm__ volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
                   : "memory");
}
static INLINE void commit(void) { __asm__ volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until all but the last `pending` groups of every thread have arrived.
#define WAIT(pending)                                                      \
  do {                                                                     \
    __asm__ volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory"); \
    __syncthreads();                                                       \
  } while (0)

#define LDMATRIX(form, m, at)                                                       \
  __asm__ volatile("ldmatrix.sync.aligned.m8n8.x4." form " {%0, %1, %2, %3}, [%4];" \
                   : "=r"((m).r[0]), "=r"((m).r[1]), "=r"((m).r[2]), "=r"((m).r[3]) \
                   : "r"(at)                                                        \
                   : "memory")

static INLINE layout layout_of(const operand* x, uint32_t width, uint32_t element) {
  layout l = {DEPTH_BYTES, width};
  if (!x->k_contiguous) l.row_bytes = width * element, l.rows = DEPTH_BYTES / element;
  return l;
}
// Copies the K block at `k0`. A thread copies the same chunk of rows that lie threads / chunks apart. What
// lies outside the operand becomes zero.
static INLINE void copy_block(const operand* x, uint32_t width, uint32_t element, uint32_t threads,
                              uint32_t thread, int32_t k0, int32_t depth, uint32_t to) {
  const layout l = layout_of(x, width, element);
  const uint32_t chunks = l.row_bytes / 16, step = threads / chunks, chunk = thread % chunks;
  const int32_t of_chunk = 16 / element, along = (x->k_contiguous ? k0 : 0) + (int32_t)chunk * of_chunk;
  const int32_t left = (x->k_contiguous ? depth : x->limit) - along;
  const int32_t bytes = (left <= 0 ? 0 : left < of_chunk ? left : of_chunk) * (int32_t)element;
  const int32_t first = x->k_contiguous ? 0 : k0, end = x->k_contiguous ? x->limit : depth;
#pragma clang loop unroll(full)
  for (uint32_t i = 0; i < width * DEPTH_BYTES / 16 / threads; ++i) {
    const uint32_t place = thread / chunks + i * step;
    const int32_t row = first + (int32_t)place;
    copy(to + place_of(l, place, chunk), x->data + (row * x->pitch + along) * (int32_t)element,
         row < end ? bytes : 0);
  }
}

// Loads 16 of the warp's rows of A or columns of B for one step. Of the four matrices the second is the next
// eight of the width and the third the next chunk along K, or the reverse, so that the registers are in
// mma.sync's order.
static INLINE matrices load_fragment(const operand* x, int32_t is_a, uint32_t width, uint32_t element,
                                     uint32_t from, uint32_t first, uint32_t lane, uint32_t step) {
  const layout l = layout_of(x, width, element);
  const uint32_t low = lane % 16, high = lane / 16;
  const int32_t rows_first = is_a == x->k_contiguous;
  const uint32_t half = rows_first ? high : low / 8, row = rows_first ? low : lane % 8 + high * 8;
  matrices m;
  if (x->k_contiguous)
    LDMATRIX("shared.b16", m, from + place_of(l, first + row, step * (STEP_BYTES / 16) + half));
  else
    LDMATRIX("trans.shared.b16", m,
             from + place_of(l, step * (STEP_BYTES / element) + row, first / (16 / element) + half));
  return m;
}

// d += A B for a tile of 16 x 8: four registers of A, two of B.
#define MMA_SYNC(form, kind, d, a, b0, b1)                                                            \
  __asm__("mma.sync.aligned." form " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
          : "+" kind((d)[0]), "+" kind((d)[1]), "+" kind((d)[2]), "+" kind((d)[3])                    \
          : "r"((a).r[0]), "r"((a).r[1]), "r"((a).r[2]), "r"((a).r[3]), "r"(b0), "r"(b1))
