// targets: gfx90a gfx942 gfx950
//
// The multi-MMA inner kernel of CDNA for f16, with MFMA of 16 x 16: one instruction for 32 of K on gfx950,
// two of 16 on older targets.
#include "mfma.h"

#if defined(__gfx950__)
typedef _Float16 eight __attribute__((vector_size(16)));
#define MULTIPLY(d, a, b) d = __builtin_amdgcn_mfma_f32_16x16x32_f16((eight)(b), (eight)(a), d, 0, 0, 0)
#else
typedef _Float16 four __attribute__((vector_size(8)));
typedef _Float16 eight __attribute__((vector_size(16)));
#define LOW(x) __builtin_shufflevector((eight)(x), (eight)(x), 0, 1, 2, 3)
#define HIGH(x) __builtin_shufflevector((eight)(x), (eight)(x), 4, 5, 6, 7)
#define MULTIPLY(d, a, b)                                                    \
  do {                                                                       \
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(LOW(b), LOW(a), d, 0, 0, 0);   \
    d = __builtin_amdgcn_mfma_f32_16x16x16f16(HIGH(b), HIGH(a), d, 0, 0, 0); \
  } while (0)
#endif

#define FUNCTION lathe_mfma_f16_128x128
#define TILE_M 128
#define TILE_N 128
#define WARP_M 64
#define WARP_N 64
#include "mfma_tile.h"

#define FUNCTION lathe_mfma_f16_64x64
#define TILE_M 64
#define TILE_N 64
#define WARP_M 32
#define WARP_N 32
#include "mfma_tile.h"
