// One inner kernel: FUNCTION of ROWS by VECTORS. Included once for each; around it `word` (of A, a scalar),
// `vector` (of B's words), `sums`, FIRST and MULTIPLY_ADD say what is multiplied.
//
// d[r * ld ...] = sum over all words w of a[r * pitch + w] by b[(w * VECTORS + v) * LANES ...], from
// FIRST(first[r]). Panels and d are aligned as the emitter packs them: b and d to a vector.
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
