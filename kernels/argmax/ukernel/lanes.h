// What the lanes of a wave, and the waves of a workgroup, do together, for each target. All of them must call
// each function together.
#include <stdint.h>

#define GLOBAL __attribute__((address_space(1)))
#define SHARED __attribute__((address_space(3)))
#define NONE UINT32_MAX
#if __CUDA_ARCH__ >= 800
#define HAS_REDUX 1   // maximum of a warp's lanes in one instruction
#define HAS_PACKED 1  // max.NaN, also for two 16-bit numbers
#endif
#if defined(__GFX9__)
#define WAVE 64u
#else
#define WAVE 32u
#endif

// The best so far: a key that is ordered like the values (0: nothing yet), its column, and the value's bits as f32.
typedef struct {
  uint32_t key, column, bits;
} best;

static inline float as_float(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}
static inline uint32_t as_bits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return bits;
}

// Equal for -0 and +0 (x + 0 is +0 for both), greatest for every NaN.
static inline uint32_t key_of(float x) {
  const uint32_t bits = as_bits(x + 0.0f);
  const uint32_t key = bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
  return x != x ? UINT32_MAX : key;
}

static inline best better(best a, best b) {
  const int take = (b.key > a.key) | ((b.key == a.key) & (b.column < a.column));
  return (best){take ? b.key : a.key, take ? b.column : a.column, take ? b.bits : a.bits};
}

#if defined(__NVPTX__)

static inline void meet(void) { __nvvm_bar_sync(0); }

#if HAS_REDUX
static inline best best_of_wave(best b) {
  const uint32_t key = (uint32_t)__nvvm_redux_sync_umax((int)b.key, -1);
  const uint32_t column = (uint32_t)__nvvm_redux_sync_umin((int)(b.key == key ? b.column : NONE), -1);
  // Lanes with this column hold the same value; a lane with another column may hold a zero of the other sign.
  const uint32_t bits = b.key == key && b.column == column ? b.bits : NONE;
  return (best){key, column, (uint32_t)__nvvm_redux_sync_umin((int)bits, -1)};
}
#else
static inline best best_of_wave(best b) {
#pragma unroll
  for (int mask = WAVE / 2; mask > 0; mask /= 2)
    b = better(b, (best){(uint32_t)__nvvm_shfl_sync_bfly_i32(-1, (int)b.key, mask, 31),
                         (uint32_t)__nvvm_shfl_sync_bfly_i32(-1, (int)b.column, mask, 31),
                         (uint32_t)__nvvm_shfl_sync_bfly_i32(-1, (int)b.bits, mask, 31)});
  return b;
}
#endif

#else

// A barrier for LDS only: loads from memory stay in flight.
static inline void meet(void) {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

#define OF_LANE(x, control) ((uint32_t)__builtin_amdgcn_update_dpp(0, (int)(x), control, 0xf, 0xf, 1))
#define BETTER_OF_LANE(b, control) \
  better(b, (best){OF_LANE((b).key, control), OF_LANE((b).column, control), OF_LANE((b).bits, control)})
static inline best best_of_wave(best b) {
  b = BETTER_OF_LANE(b, 0xb1);   // quad_perm [1, 0, 3, 2]
  b = BETTER_OF_LANE(b, 0x4e);   // quad_perm [2, 3, 0, 1]
  b = BETTER_OF_LANE(b, 0x141);  // row_half_mirror
  b = BETTER_OF_LANE(b, 0x140);  // row_mirror: now the best of each row of 16 lanes
  best of_all = {0, NONE, 0};
#pragma unroll
  for (int lane = 0; lane < (int)WAVE; lane += 16)
    of_all = better(of_all, (best){(uint32_t)__builtin_amdgcn_readlane((int)b.key, lane),
                                   (uint32_t)__builtin_amdgcn_readlane((int)b.column, lane),
                                   (uint32_t)__builtin_amdgcn_readlane((int)b.bits, lane)});
  return of_all;
}

#endif
