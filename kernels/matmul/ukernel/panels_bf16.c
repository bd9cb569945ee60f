// targets: x86-64-v4-bf16
//
// The multi-MMA inner kernel of the CPU for pairs of bf16 along K: AVX512-BF16 adds both products to an f32.
#include <immintrin.h>
#include <stdint.h>

#define LANES 16
typedef __m512 sums;
typedef int32_t word;
typedef __m512i vector;
#define FIRST(first) \
  (sums) { 0 }
#define MULTIPLY_ADD(a, b, sum) _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(a), (__m512bh)(b))

#define FUNCTION lathe_panels_bf16_14x2
#define ROWS 14
#define VECTORS 2
#include "panel_tile.h"
