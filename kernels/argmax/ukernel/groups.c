// targets: sm_75 sm_80 gfx9 gfx11
//
// The best of a row of n >= 1 elements (fewer than 2^31), or of a chunk of it, found by a group of threads of
// a GPU: a wave or the whole workgroup. Of equal values the lowest column wins; the first NaN wins over
// everything. Every thread of the group gets the result: the value's bits as f32 in the upper half, its
// column in the lower. Rows may start at any address that is aligned to an element.
//
// A load is 16 bytes. The generated kernel keeps the 16 bytes that contain its maximum; here a thread keeps
// only their position and reads them again at the end.
#include "lanes.h"

#define UNROLL 4u  // loads in flight in each thread

typedef uint32_t words __attribute__((vector_size(16), may_alias));

static inline uint64_t result_of(best b) { return (uint64_t)b.bits << 32 | b.column; }

static inline float value_of_f16(uint32_t bits) {
  const uint16_t half = (uint16_t)bits;
  _Float16 x;
  __builtin_memcpy(&x, &half, sizeof(x));
  return (float)x;
}
static inline float value_of_bf16(uint32_t bits) { return as_float(bits << 16); }

#define TYPE f32
#define BITS uint32_t
#define value_of as_float
#include "group.h"

#if HAS_PACKED
typedef _Float16 pair_f16 __attribute__((ext_vector_type(2)));
typedef __bf16 pair_bf16 __attribute__((ext_vector_type(2)));
#define PAIR pair_f16
#endif
#define TYPE f16
#define BITS uint16_t
#define value_of value_of_f16
#include "group.h"

#if HAS_PACKED
#define PAIR pair_bf16
#endif
#define TYPE bf16
#define BITS uint16_t
#define value_of value_of_bf16
#include "group.h"
