// targets: sm_80
//
// The multi-MMA inner kernel of CUDA for bf16.
#include "mma_sync.h"

#define ELEMENT 2
typedef float sum;
#define MULTIPLY(d, a, b0, b1) MMA_SYNC("m16n8k16.row.col.f32.bf16.bf16.f32", "f", d, a, b0, b1)

#define FUNCTION lathe_mma_bf16_128x128
#define TILE_M 128
#define TILE_N 128
#define WARP_M 64
#define WARP_N 32
#include "mma_sync_tile.h"

#define FUNCTION lathe_mma_bf16_64x64
#define TILE_M 64
#define TILE_N 64
#define WARP_M 32
#define WARP_N 32
#include "mma_sync_tile.h"
