// A ukernel of argmax on GPUs, called by every thread of a wave (of a warp): `place` is the thread's among
// them. To all of them it answers the value of a row's first maximum, as bits, above its column. The row may
// lie at any address, and has a column at least; a NaN is over everything.
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

// As unsigned numbers in the order of the values: -0 is +0, and every NaN the greatest.
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
