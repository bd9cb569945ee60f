// Three row kernels, FUNCTION, FUNCTION_IN_SHORT_BLOCKS and FUNCTION_OF_PARTS, for elements stored as BITS
// (UNSIGNED: the same without a sign). INFINITE: the bits of positive infinity. Included once for each dtype.
#if defined(__AVX512BW__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES ((int64_t)(VECTOR_BYTES / sizeof(BITS)))
#define BLOCK_VECTORS 32
#define SHORT_VECTORS 8
#define PARTS 4
#define PART_VECTORS 8
#define PART_BLOCK (PART_VECTORS * LANES)
#define LEAST ((BITS)((UNSIGNED)1 << (8 * sizeof(BITS) - 1)))
#define JOIN_(x, y) x##_##y
#define JOIN(x, y) JOIN_(x, y)
#define NAME(x) JOIN(FUNCTION, x)

typedef BITS NAME(scalar) __attribute__((aligned(1), may_alias));
typedef BITS NAME(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef UNSIGNED NAME(magnitudes) __attribute__((vector_size(VECTOR_BYTES)));
typedef NAME(vector) NAME(memory) __attribute__((aligned(1), may_alias));

// The best so far: its key, which is ordered like the numbers (+0 and -0 are equal), and a column. The best is not
// before that column, and one of the vectors from there on contains it. After the first NaN, the NaN's own column.
typedef struct {
  BITS key;
  uint32_t column;
} NAME(best);

static inline NAME(vector) NAME(load)(const NAME(scalar) * x) { return *(const NAME(memory)*)x; }
static inline BITS NAME(key_of)(BITS x) { return x < 0 ? (BITS)(LEAST - x) : x; }
static inline NAME(vector) NAME(keys_of)(NAME(vector) x) {
  const NAME(vector) sign = x >> (int)(8 * sizeof(BITS) - 1);
  return ((x & (BITS)~LEAST) ^ sign) - sign;
}
static inline int NAME(is_nan)(BITS x) { return (x & (BITS)~LEAST) > INFINITE; }

// Not 0 in a lane in which one of `vectors` vectors may hold a value that rises over the best. The bits of
// negative numbers are ordered the other way round and, as unsigned numbers, lie above all others; only
// negative NaNs lie above -infinity. Positive NaNs lie above every positive number.
static inline __attribute__((always_inline)) NAME(vector)
    NAME(rising)(const NAME(scalar) * x, int vectors, BITS best) {
  NAME(vector) highest[2];
  NAME(magnitudes) most[2], least[2];
  for (int i = 0; i < vectors; ++i) {
    const NAME(vector) v = NAME(load)(x + i * LANES);
    const NAME(magnitudes) u = (NAME(magnitudes))v;
    highest[i % 2] = i < 2 ? v : __builtin_elementwise_max(highest[i % 2], v);
    most[i % 2] = i < 2 ? u : __builtin_elementwise_max(most[i % 2], u);
    least[i % 2] = i < 2 ? u : __builtin_elementwise_min(least[i % 2], u);
  }
  const NAME(vector) high = __builtin_elementwise_max(highest[0], highest[1]);
  const NAME(magnitudes) all = __builtin_elementwise_max(most[0], most[1]);
  const NAME(magnitudes) low = __builtin_elementwise_min(least[0], least[1]);
  const NAME(vector) above = best >= 0 ? high > best : low < (UNSIGNED)(LEAST - best);
  return above | (all > (UNSIGNED)(LEAST + INFINITE));
}

// Updates `best` from the `vectors` vectors at `column`. Returns whether there is a NaN, which ends the row.
static inline int NAME(take)(const NAME(scalar) * x, int64_t column, int64_t vectors, NAME(best) * best) {
  x += column;
  NAME(vector) highest = (NAME(vector)){0} + LEAST, nan = {0};
  for (int64_t i = 0; i < vectors; ++i) {
    const NAME(vector) v = NAME(load)(x + i * LANES);
    highest = __builtin_elementwise_max(highest, NAME(keys_of)(v));
    nan |= (v & (BITS)~LEAST) > INFINITE;
  }
  if (__builtin_reduce_or(nan) != 0) {
    int64_t at = 0;
    while (!NAME(is_nan)(x[at])) ++at;
    best->column = (uint32_t)(column + at);
    return 1;
  }
  const BITS key = __builtin_reduce_max(highest);
  if (key > best->key) *best = (NAME(best)){key, (uint32_t)column};
  return 0;
}

// The start of the vector after the one at `at`, but not after the last whole vector of `n` columns.
static inline int64_t NAME(after)(int64_t at, int64_t n) {
  return at + 2 * LANES <= n ? at + LANES : n - LANES;
}

// The column of the best of a row of `n`, after the whole row was scanned.
static inline uint32_t NAME(find)(const NAME(scalar) * x, int64_t n, NAME(best) best) {
  if (best.key == -INFINITE) return 0;  // nothing rose
  int64_t at = best.column;
  while (__builtin_reduce_or(NAME(keys_of)(NAME(load)(x + at)) == best.key) == 0) at = NAME(after)(at, n);
  while (NAME(key_of)(x[at]) != best.key) ++at;
  return (uint32_t)at;
}

// The first NaN of a row of `n` that has one.
static inline uint32_t NAME(first_nan)(const NAME(scalar) * x, int64_t n) {
  int64_t at = 0;
  while (__builtin_reduce_or((NAME(load)(x + at) & (BITS)~LEAST) > INFINITE) == 0) at = NAME(after)(at, n);
  while (!NAME(is_nan)(x[at])) ++at;
  return (uint32_t)at;
}

// Whether an element of `vectors` vectors is above zero.
static inline __attribute__((always_inline)) int NAME(is_above_zero)(const NAME(scalar) * x, int vectors) {
  NAME(vector) highest = {0};
  for (int i = 0; i < vectors; ++i) highest = __builtin_elementwise_max(highest, NAME(load)(x + i * LANES));
  return __builtin_reduce_or(highest) != 0;
}

// The column of the maximum of a row whose first block is_above_zero(). The maximum is then positive, and
// bits are ordered like values. Each lane keeps its greatest element and the first block that contains it,
// without a branch until the row's end. The last block is the row's last `elements`; those that were scanned
// before do not rise again. A block number that BITS cannot hold wraps to an earlier block, from which find()
// still reaches the element.
static inline __attribute__((always_inline)) uint32_t NAME(above_zero)(const NAME(scalar) * x, int64_t n,
                                                                       int block) {
  const int64_t elements = block * LANES, last = (n - 1) / elements;
  NAME(vector) highest = {0}, at = {0};
  NAME(magnitudes) most[2] = {{0}, {0}};
  for (int64_t i = 0; i <= last; ++i) {
    const NAME(scalar)* from = x + (i < last ? i * elements : n - elements);
    NAME(vector) high[2];
    for (int v = 0; v < block; ++v) {
      const NAME(vector) bits = NAME(load)(from + v * LANES);
      high[v % 2] = v < 2 ? bits : __builtin_elementwise_max(high[v % 2], bits);
      most[v % 2] = __builtin_elementwise_max(most[v % 2], (NAME(magnitudes))bits);
    }
    const NAME(vector) both = __builtin_elementwise_max(high[0], high[1]), rises = both > highest;
    highest = __builtin_elementwise_max(highest, both);
    at = (rises & (BITS)i) | (~rises & at);
  }
  const NAME(magnitudes) all = __builtin_elementwise_max(most[0], most[1]);
  const BITS key = __builtin_reduce_max(highest);
  if (key > INFINITE || __builtin_reduce_max(all) > (UNSIGNED)(LEAST + INFINITE))
    return NAME(first_nan)(x, n);
  const NAME(vector) others = highest != key;
  const int64_t first = (int64_t)__builtin_reduce_min((NAME(magnitudes))(at | others));
  const int64_t from = first < last ? first * elements : n - elements;
  NAME(best) best = {key, (uint32_t)from};
  return NAME(find)(x, n, best);
}

// `n` is at least 1; `block` is a number of vectors. What is left after the last whole block or vector is
// scanned together with some elements before it, which do not rise again.
static inline __attribute__((always_inline)) uint32_t NAME(in_blocks)(const NAME(scalar) * x, int64_t n,
                                                                      int block) {
  const int64_t elements = block * LANES;
  NAME(best) best = {-INFINITE, 0};
  if (n < LANES) {
    for (int64_t i = 0; i < n; ++i) {
      if (NAME(is_nan)(x[i])) return (uint32_t)i;
      if (NAME(key_of)(x[i]) > best.key) best = (NAME(best)){NAME(key_of)(x[i]), (uint32_t)i};
    }
    return best.column;
  }
  if (n < elements) {
    const int64_t vectors = n / LANES;
    if (NAME(take)(x, 0, vectors, &best)) return best.column;
    if (vectors * LANES < n && NAME(take)(x, n - LANES, 1, &best)) return best.column;
    return NAME(find)(x, n, best);
  }
  if (NAME(is_above_zero)(x, block)) return NAME(above_zero)(x, n, block);
  for (int64_t i = 0; i < n; i += elements) {
    const int64_t at = i + elements <= n ? i : n - elements;
    const int may_rise = __builtin_reduce_or(NAME(rising)(x + at, block, best.key)) != 0;
    if (may_rise && NAME(take)(x, at, block, &best)) return best.column;
  }
  return NAME(find)(x, n, best);
}

uint32_t FUNCTION(const void* row, int64_t n) { return NAME(in_blocks)(row, n, BLOCK_VECTORS); }
uint32_t FUNCTION_IN_SHORT_BLOCKS(const void* row, int64_t n) {
  return NAME(in_blocks)(row, n, SHORT_VECTORS);
}

// The same with PARTS parts of the row side by side, each with a best of its own.
uint32_t FUNCTION_OF_PARTS(const void* row, int64_t n) {
  const NAME(scalar)* x = row;
  const int64_t part = n / (PARTS * PART_BLOCK) * PART_BLOCK;
  if (part == 0) return FUNCTION_IN_SHORT_BLOCKS(row, n);
  NAME(best) bests[PARTS];
  for (int p = 0; p < PARTS; ++p) bests[p] = (NAME(best)){-INFINITE, 0};
  for (int64_t i = 0; i < part; i += PART_BLOCK) {
    NAME(vector) rising = {0};
    for (int p = 0; p < PARTS; ++p) rising |= NAME(rising)(x + p * part + i, PART_VECTORS, bests[p].key);
    if (__builtin_reduce_or(rising) == 0) continue;
    // An earlier part may have a NaN, too, in a block that was not scanned yet.
    for (int p = 0; p < PARTS; ++p)
      if (NAME(take)(x, p * part + i, PART_VECTORS, &bests[p])) return NAME(first_nan)(x, n);
  }
  NAME(best) best = bests[0];
  for (int p = 1; p < PARTS; ++p)
    if (bests[p].key > best.key) best = bests[p];
  const int64_t seen = PARTS * part, vectors = (n - seen) / LANES;
  if (NAME(take)(x, seen, vectors, &best)) return best.column;
  if (seen + vectors * LANES < n && NAME(take)(x, n - LANES, 1, &best)) return best.column;
  return NAME(find)(x, n, best);
}

#undef FUNCTION
#undef FUNCTION_IN_SHORT_BLOCKS
#undef FUNCTION_OF_PARTS
#undef BITS
#undef UNSIGNED
#undef INFINITE
#undef VECTOR_BYTES
#undef LANES
#undef BLOCK_VECTORS
#undef SHORT_VECTORS
#undef PARTS
#undef PART_VECTORS
#undef PART_BLOCK
#undef LEAST
#undef JOIN_
#undef JOIN
#undef NAME
