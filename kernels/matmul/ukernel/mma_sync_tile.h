// One inner kernel: FUNCTION, for a tile of TILE_M x TILE_N in warps of WARP_M x WARP_N (columns of warps
// innermost). Included once for each kernel; the including file defines ELEMENT (bytes), `sum` and MULTIPLY.
// Each accumulator starts at zero and takes one mma.sync per step of K, in ascending order.
//
// Blocks of K pass through STAGES buffers: while one is multiplied, the copies of the next STAGES - 1 are in
// flight. While a step is multiplied, the next step's fragments are loaded.
#define WARPS_N (TILE_N / WARP_N)
#define THREADS (TILE_M / WARP_M * WARPS_N * 32)
#define A_BYTES (TILE_M * DEPTH_BYTES)
#define STAGE_BYTES (A_BYTES + TILE_N * DEPTH_BYTES)
#define STEPS (DEPTH_BYTES / STEP_BYTES)
#define FRAGMENTS_M (WARP_M / 16)
#define FRAGMENTS_N (WARP_N / 8)

void FUNCTION(const GLOBAL char* a, int64_t a_pitch, int32_t rows, int32_t a_k_contiguous,
              const GLOBAL char* b, int64_t b_pitch, int32_t columns, int32_t b_k_contiguous, int32_t depth,
              int32_t thread, SHARED char* shared, PRIVATE sum* sums) {
  const operand xa = {a, a_pitch, rows, a_k_contiguous}, xb = {b, b_pitch, columns, b_k_contiguous};
  const uint32_t base = (uint32_t)(uintptr_t)shared, end = base + STAGES * STAGE_BYTES;
  const uint32_t lane = thread % 32, warp = thread / 32;
  const uint32_t first_row = warp / WARPS_N * WARP_M, first_column = warp % WARPS_N * WARP_N;
  sum x[FRAGMENTS_M][FRAGMENTS_N][4];
#pragma clang loop unroll(full)
  for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; ++i) ((sum*)x)[i] = 0;
#define COPY(k0, stage)                                                                      \
  do {                                                                                       \
    copy_block(&xa, TILE_M, ELEMENT, THREADS, (uint32_t)thread, k0, depth, stage);           \
    copy_block(&xb, TILE_N, ELEMENT, THREADS, (uint32_t)thread, k0, depth, stage + A_BYTES); \
    commit();                                                                                \
  } while (0)
#define LOAD(to_a, to_b, stage, step)                                                               \
  do {                                                                                              \
    _Pragma("clang loop unroll(full)") for (int i = 0; i < FRAGMENTS_M; ++i) to_a[i] =              \
        load_fragment(&xa, 1, TILE_M, ELEMENT, stage, first_row + i * 16, lane, step);              \
    _Pragma("clang loop unroll(full)") for (int j = 0; j < FRAGMENTS_N / 2; ++j) to_b[j] =          \
        load_fragment(&xb, 0, TILE_N, ELEMENT, stage + A_BYTES, first_column + j * 16, lane, step); \
  } while (0)
  matrices now_a[FRAGMENTS_M], now_b[FRAGMENTS_N / 2], next_a[FRAGMENTS_M], next_b[FRAGMENTS_N / 2];
  uint32_t read = base, write = base;
#pragma clang loop unroll(full)
  for (int s = 0; s < STAGES - 1; ++s, write += STAGE_BYTES) COPY(s * (DEPTH_BYTES / ELEMENT), write);
  WAIT(STAGES - 2);
  LOAD(now_a, now_b, read, 0);
#pragma clang loop unroll(disable)
  for (int32_t k = 0; k < depth; k += DEPTH_BYTES / ELEMENT) {
    // No warp has read that stage since the last barrier.
    COPY(k + (STAGES - 1) * (DEPTH_BYTES / ELEMENT), write);
    write = write + STAGE_BYTES == end ? base : write + STAGE_BYTES;
#pragma clang loop unroll(full)
    for (int step = 0; step < STEPS; ++step) {
      if (step + 1 == STEPS) {
        WAIT(STAGES - 2);
        read = read + STAGE_BYTES == end ? base : read + STAGE_BYTES;
      }
      LOAD(next_a, next_b, read, (step + 1) % STEPS);
#pragma clang loop unroll(full)
      for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma clang loop unroll(full)
        for (int j = 0; j < FRAGMENTS_N; ++j)
          MULTIPLY(x[i][j], now_a[i], now_b[j / 2].r[j % 2 * 2], now_b[j / 2].r[j % 2 * 2 + 1]);
#pragma clang loop unroll(full)
      for (int i = 0; i < FRAGMENTS_M; ++i) now_a[i] = next_a[i];
#pragma clang loop unroll(full)
      for (int j = 0; j < FRAGMENTS_N / 2; ++j) now_b[j] = next_b[j];
    }
  }
  WAIT(0);
#pragma clang loop unroll(full)
  for (int i = 0; i < FRAGMENTS_M * FRAGMENTS_N * 4; ++i) sums[i] = ((sum*)x)[i];
}

#undef LOAD
#undef COPY
#undef FRAGMENTS_N
#undef FRAGMENTS_M
#undef STEPS
#undef STAGE_BYTES
#undef A_BYTES
#undef THREADS
#undef WARPS_N
#undef WARP_N
#undef WARP_M
#undef TILE_N
#undef TILE_M
#undef FUNCTION
