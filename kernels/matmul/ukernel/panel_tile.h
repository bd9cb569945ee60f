// One inner kernel: FUNCTION, for ROWS rows by VECTORS vectors. Included once for each kernel; the including
// file defines `word` (a scalar of A), `vector` (words of B), `sums`, FIRST and MULTIPLY_ADD.
//
// d[r * ld ...] = FIRST(first[r]) + the sum over all words w of
//                 a[r * pitch + w] * b[(w * VECTORS + v) * LANES ...].
// The emitter packs the panels; b and d are aligned to a vector.
void FUNCTION(const word* a, int64_t pitch, const vector* b, int64_t words, const word* first, sums* d,
              int64_t ld) {
  sums x[ROWS][VECTORS];
  (void)first;
#pragma clang loop unroll(full)
  for (int r = 0; r < ROWS; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; ++v) x[r][v] = FIRST(first[r]);
#pragma clang loop unroll(disable)
  for (int64_t w = 0; w < words; ++w) {
    vector columns[VECTORS];
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; ++v) columns[v] = b[w * VECTORS + v];
#pragma clang loop unroll(full)
    for (int r = 0; r < ROWS; ++r)
#pragma clang loop unroll(full)
      for (int v = 0; v < VECTORS; ++v) x[r][v] = MULTIPLY_ADD(a[r * pitch + w], columns[v], x[r][v]);
  }
#pragma clang loop unroll(full)
  for (int r = 0; r < ROWS; ++r)
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; ++v) d[r * ld / LANES + v] = x[r][v];
}

#undef FUNCTION
#undef ROWS
#undef VECTORS
