// targets: sm_80
//
// The multi-MMA inner kernel of CUDA for i8. Both operands must be K-contiguous, because ldmatrix cannot
// transpose bytes.
#include "mma_sync.h"

#define ELEMENT 1
typedef int32_t sum;
#define MULTIPLY(d, a, b0, b1) MMA_SYNC("m16n8k32.row.col.s32.s8.s8.s32", "r", d, a, b0, b1)

#define FUNCTION lathe_mma_i8_128x128
#define TILE_M 128
#define TILE_N 128
#define WARP_M 64
#define WARP_N 32
#include "mma_sync_tile.h"

#define FUNCTION lathe_mma_i8_64x64
#define TILE_M 64
#define TILE_N 64
#define WARP_M 32
#define WARP_N 32
#include "mma_sync_tile.h"
