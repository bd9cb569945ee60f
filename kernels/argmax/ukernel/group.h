// The two functions for one element type, TYPE, stored as BITS. `value_of` converts an element to f32.
// Included once for each type.
#define JOIN_(x, y) x##y
#define JOIN(x, y) JOIN_(x, y)
#define NAME(x) JOIN(JOIN(x, _), TYPE)
#define ELEMENTS (16u / sizeof(BITS))  // in a load
#define PER_WORD (4u / sizeof(BITS))

typedef BITS NAME(element) __attribute__((may_alias));

static inline float NAME(at)(words v, uint32_t j) {
  return value_of(v[j / PER_WORD] >> (8 * sizeof(BITS) * (j % PER_WORD)));
}

// The greatest element; a NaN if there is one.
static inline float NAME(greatest)(words v) {
#ifdef PAIR
  PAIR pairs[4];
  __builtin_memcpy(pairs, &v, sizeof(pairs));
  const PAIR pair = __builtin_elementwise_maximum(__builtin_elementwise_maximum(pairs[0], pairs[1]),
                                                  __builtin_elementwise_maximum(pairs[2], pairs[3]));
  uint32_t word;
  __builtin_memcpy(&word, &pair, sizeof(word));
  return __builtin_elementwise_maximum(value_of(word), value_of(word >> 16));
#else
  float x[ELEMENTS];
#pragma unroll
  for (uint32_t j = 0; j < ELEMENTS; ++j) x[j] = NAME(at)(v, j);
#pragma unroll
  for (uint32_t half = ELEMENTS / 2; half > 0; half /= 2)
#pragma unroll
    for (uint32_t j = 0; j < half; ++j) x[j] = __builtin_elementwise_maximum(x[j], x[j + half]);
  return x[0];
#endif
}

// The scan of thread `place` of `group`. The elements before the first whole vector and after the last one
// are read one per thread. Of the vectors, the thread keeps the greatest element and the number of its
// vector, and reads that vector again at the end.
static inline best NAME(scan)(const GLOBAL void* row, uint32_t n, uint32_t place, uint32_t group) {
  const GLOBAL NAME(element)* first = row;
  uint32_t head = (uint32_t)((0 - (uintptr_t)row) % 16 / sizeof(BITS));
  head = head < n ? head : n;
  const uint32_t count = (n - head) / ELEMENTS, tail = (n - head) % ELEMENTS;
  const GLOBAL words* vectors = (const GLOBAL words*)(first + head);

  const uint32_t behind = place - ELEMENTS;  // threads from ELEMENTS on take the tail
  const int in_tail = behind < tail, exists = place < head || in_tail;
  const uint32_t column = in_tail ? n - tail + behind : place;
  // Column 0 always exists, so no branch is needed and the load is in flight while the vectors are read.
  const float outside = value_of(first[exists ? column : 0]);
  const best edge = {exists ? key_of(outside) : 0, exists ? column : NONE, as_bits(outside)};

  float highest = -__builtin_inff();
  uint32_t at = place;
  for (uint32_t i = place; i < count; i += UNROLL * group) {
    words read[UNROLL];
    uint32_t from[UNROLL];
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; ++u) {
      // Beyond the last vector, that vector is read again, which changes nothing.
      from[u] = i + u * group < count ? i + u * group : count - 1;
      read[u] = vectors[from[u]];
    }
#pragma unroll
    for (uint32_t u = 0; u < UNROLL; ++u) {
      const float x = NAME(greatest)(read[u]);
      const int rises = !(x <= highest) && highest == highest;  // above it, or the first NaN
      highest = rises ? x : highest;
      at = rises ? from[u] : at;
    }
  }

  best found = {0, NONE, 0};
  if (place < count) {
    const words v = vectors[at];
#pragma unroll
    for (uint32_t j = ELEMENTS; j-- > 0;) {
      const float x = NAME(at)(v, j);
      // An element can only be a NaN if the greatest is one, and then no element equals it.
      if (x == highest || x != x) found = (best){0, head + at * ELEMENTS + j, as_bits(x)};
    }
    found.key = key_of(highest);
  }
  return better(found, edge);
}

// One row by a wave: `place` is the lane.
uint64_t JOIN(lathe_argmax_wave_, TYPE)(const GLOBAL void* row, uint32_t n, uint32_t place) {
  return result_of(best_of_wave(NAME(scan)(row, n, place, WAVE)));
}

// One row, or a chunk of it, by a workgroup: `place` is the thread, `partials` has room for each wave's best.
uint64_t JOIN(lathe_argmax_block_, TYPE)(const GLOBAL void* row, uint32_t n, uint32_t place, uint32_t threads,
                                         SHARED void* partials) {
  SHARED best* of_waves = partials;
  const best mine = best_of_wave(NAME(scan)(row, n, place, threads));
  if (place % WAVE == 0) of_waves[place / WAVE] = mine;
  meet();
  // Every wave reads all of them. If there are fewer than lanes, some lanes read the same one.
  return result_of(best_of_wave(of_waves[place % WAVE % (threads / WAVE)]));
}

#undef TYPE
#undef BITS
#undef value_of
#undef PAIR
#undef JOIN_
#undef JOIN
#undef NAME
#undef ELEMENTS
#undef PER_WORD
