// A ukernel for argmax on GPUs. Every thread of a wave (warp) calls it; `place` is the thread's index in the
// wave. It returns the same value to all of them: the bits of the row's first maximum in the upper 32 bits, its
// column in the lower 32. A NaN counts as the maximum. The row may have any alignment and at least one column.
#include <stdint.h>

#if defined(__NVPTX__)
#define LANES 32u
static uint32_t of_lane(uint32_t x, uint32_t lane) {
  return (uint32_t)__nvvm_shfl_sync_idx_i32(-1, (int)x, (int)lane, 31);
}
#else
#define LANES ((uint32_t)__builtin_amdgcn_wavefrontsize())
static uint32_t of_lane(uint32_t x, uint32_t lane) {
  return (uint32_t)__builtin_amdgcn_ds_bpermute((int)(4 * lane), (int)x);
}
#endif

// Maps a float to an unsigned number with the same order. -0 equals +0, and every NaN is the greatest.
static uint32_t key_of(float x) {
  uint32_t bits;
  x += 0.0f;
  __builtin_memcpy(&bits, &x, 4);
  return x != x ? UINT32_MAX : bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
}

uint64_t first_maximum_wave(const __attribute__((address_space(1))) void* row, uint32_t columns,
                            uint32_t place) {
  const __attribute__((address_space(1))) float* x = row;
  uint32_t best = 0, key = 0;
  for (uint32_t i = place; i < columns; i += LANES)
    if (key_of(x[i]) > key) best = i, key = key_of(x[i]);
  for (uint32_t step = LANES / 2; step > 0; step /= 2) {
    const uint32_t other_key = of_lane(key, place ^ step), other = of_lane(best, place ^ step);
    const int takes = other_key > key || (other_key == key && other < best);
    best = takes ? other : best, key = takes ? other_key : key;
  }
  uint32_t bits;
  const float value = x[best];
  __builtin_memcpy(&bits, &value, 4);
  return (uint64_t)bits << 32 | best;
}
