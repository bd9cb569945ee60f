// targets: x86-64-v4-vnni
//
// The multi-MMA inner kernel of the CPU for bytes, four along K in a word. AVX512-VNNI multiplies B's bytes,
// which the emitter has shifted to be unsigned, by A's and adds the four products to an i32. The accumulators
// start at values that undo the shift.
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
typedef __m512i sums;
typedef int32_t word;
typedef __m512i vector;
#define FIRST(first) _mm512_set1_epi32(first)
#define MULTIPLY_ADD(a, b, sum) _mm512_dpbusd_epi32(sum, b, _mm512_set1_epi32(a))

#define FUNCTION lathe_panels_i8_14x2
#define ROWS 14
#define VECTORS 2
#include "panel_tile.h"
