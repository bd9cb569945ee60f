// One inner kernel: FUNCTION, for a tile of TILE_M x TILE_N in waves of WARP_M x WARP_N (columns of waves
// innermost). Included once for each kernel. MULTIPLY, which the including file defines, multiplies 16 bytes of
// K of each lane in one or two instructions. B's columns are the instruction's rows, so that a lane's
// accumulators are adjacent along N. Each accumulator starts at zero and adds the steps of K in ascending order.
//
// Blocks of K pass through registers and two buffers: while one block is multiplied, the next moves from
// registers to the other buffer, and the one after that is loaded into registers.
#define WARPS_N (TILE_N / WARP_N)
#define THREADS (TILE_M / WARP_M * WARPS_N * 64)
#define A_BYTES (TILE_M * DEPTH_BYTES)
#define STAGE_BYTES (A_BYTES + TILE_N * DEPTH_BYTES)
#define BLOCK (DEPTH_BYTES / ELEMENT)
#define FRAGMENTS_M (WARP_M / 16)
#define FRAGMENTS_N (WARP_N / 16)
#define ROW_STEP (THREADS / 4)
#define COPIES_A (TILE_M / ROW_STEP)
#define COPIES_B (TILE_N / ROW_STEP)
#define EACH(i, count) _Pragma("clang loop unroll(full)") for (int i = 0; i < (count); ++i)

void FUNCTION(const GLOBAL char* a, int64_t a_pitch, int32_t rows, int32_t a_k_contiguous,
              const GLOBAL char* b, int64_t b_pitch, int32_t columns, int32_t b_k_contiguous, int32_t depth,
              int32_t thread, SHARED char* shared, PRIVATE float* sums) {
  const operand xa = {a, a_pitch, rows, a_k_contiguous}, xb = {b, b_pitch, columns, b_k_contiguous};
  const layout la = {DEPTH_BYTES, TILE_M}, lb = {DEPTH_BYTES, TILE_N};
  const uint32_t lane = thread % 64, wave = thread / 64;
  const uint32_t first_row = wave / WARPS_N * WARP_M, first_column = wave % WARPS_N * WARP_N;
  chunk copy_a[COPIES_A], copy_b[COPIES_B], now_a[FRAGMENTS_M], now_b[FRAGMENTS_N];
#define BEGIN(k0)                                                                                   \
  do {                                                                                              \
    EACH(i, COPIES_A)                                                                               \
    copy_a[i] = *(const GLOBAL chunk*)source_of(&xa, thread, thread / 4 + i * ROW_STEP, k0, depth); \
    EACH(i, COPIES_B)                                                                               \
    copy_b[i] = *(const GLOBAL chunk*)source_of(&xb, thread, thread / 4 + i * ROW_STEP, k0, depth); \
  } while (0)
#define END(k0, to)                                                                                  \
  do {                                                                                               \
    const chunk mask = mask_of(thread, k0, depth);                                                   \
    EACH(i, COPIES_A)                                                                                \
    *(SHARED chunk*)((to) + place_of(la, thread / 4 + i * ROW_STEP, thread % 4)) = copy_a[i] & mask; \
    EACH(i, COPIES_B)                                                                                \
    *(SHARED chunk*)((to) + A_BYTES + place_of(lb, thread / 4 + i * ROW_STEP, thread % 4)) =         \
        copy_b[i] & mask;                                                                            \
  } while (0)
#define LOAD(to_a, to_b, from)                                                                          \
  do {                                                                                                  \
    EACH(i, FRAGMENTS_M)                                                                                \
    to_a[i] = *(const SHARED chunk*)((from) + place_of(la, first_row + i * 16 + lane % 16, lane / 16)); \
    EACH(j, FRAGMENTS_N)                                                                                \
    to_b[j] = *(const SHARED chunk*)((from) + A_BYTES +                                                 \
                                     place_of(lb, first_column + j * 16 + lane % 16, lane / 16));       \
  } while (0)
  sums4 x[FRAGMENTS_M][FRAGMENTS_N];
  EACH(i, FRAGMENTS_M) EACH(j, FRAGMENTS_N) x[i][j] = (sums4){0};
  BEGIN(0);
  END(0, shared);
  BEGIN(BLOCK);
  barrier();
  LOAD(now_a, now_b, shared);
  uint32_t write = STAGE_BYTES;
#pragma clang loop unroll(disable)
  for (int32_t k = 0; k < depth; k += BLOCK) {
    // No wave has read that buffer since the last barrier.
    END(k + BLOCK, shared + write);
    BEGIN(k + 2 * BLOCK);
    // LLVM would otherwise move the loads down to their first use.
    __builtin_amdgcn_sched_barrier(0);
    barrier();
    chunk next_a[FRAGMENTS_M], next_b[FRAGMENTS_N];
    LOAD(next_a, next_b, shared + write);
    // LLVM would otherwise move loads of loop-carried operands to the head of the loop.
    __asm__ volatile("" ::: "memory");
    EACH(i, FRAGMENTS_M) EACH(j, FRAGMENTS_N) MULTIPLY(x[i][j], now_a[i], now_b[j]);
    EACH(i, FRAGMENTS_M) now_a[i] = next_a[i];
    EACH(j, FRAGMENTS_N) now_b[j] = next_b[j];
    write = STAGE_BYTES - write;
  }
  barrier();
  EACH(i, FRAGMENTS_M) EACH(j, FRAGMENTS_N) EACH(v, 4) sums[(i * FRAGMENTS_N + j) * 4 + v] = x[i][j][v];
}

#undef LOAD
#undef END
#undef BEGIN
#undef EACH
#undef COPIES_B
#undef COPIES_A
#undef ROW_STEP
#undef FRAGMENTS_N
#undef FRAGMENTS_M
#undef BLOCK
#undef STAGE_BYTES
#undef A_BYTES
#undef THREADS
#undef WARPS_N
#undef WARP_N
#undef WARP_M
#undef TILE_N
#undef TILE_M
#undef FUNCTION
