// targets: x86-64-v3 x86-64-v4
//
// The multi-MMA inner kernel of the CPU for f32: a register tile over all of K, from panels that the emitter
// has packed (kernels/matmul/cpu/emit_panel.cc). Each accumulator starts at zero and takes one FMA per k, in
// ascending order.
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#else
#define LANES 8
#endif
typedef float vector __attribute__((vector_size(4 * LANES)));
typedef vector sums;
typedef float word;
#define FIRST(first) \
  (vector) { 0 }
#define MULTIPLY_ADD(a, b, sum) __builtin_elementwise_fma((a) - (vector){0}, b, sum)

#define FUNCTION lathe_panels_f32_14x2
#define ROWS 14
#define VECTORS 2
#include "panel_tile.h"

#define FUNCTION lathe_panels_f32_6x2
#define ROWS 6
#define VECTORS 2
#include "panel_tile.h"
