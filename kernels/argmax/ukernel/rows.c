// targets: x86-64-v3 x86-64-v4 aarch64
//
// Column of a row's maximum: the lowest of equal values, the first NaN over everything, 0 if all are -inf.
// Rows may start at any address; nothing outside of them is read.
//
// Values are compared as their bits. Bits of one sign are ordered like integers, so that three integer maxima
// and minima per vector tell whether a block may hold a value that rises over the best so far, or a NaN. Only
// such a block is read again. The column of the best is looked up once, at the end.
//
// Which block size and how many parts are fastest depends on the core: docs/cpu-speed.md, Argmax.
#include <stdint.h>

#define FUNCTION lathe_argmax_row_f32
#define FUNCTION_IN_SHORT_BLOCKS lathe_argmax_short_f32
#define FUNCTION_OF_PARTS lathe_argmax_parts_f32
#define BITS int32_t
#define UNSIGNED uint32_t
#define INFINITE 0x7f800000
#include "row.h"

#define FUNCTION lathe_argmax_row_f16
#define FUNCTION_IN_SHORT_BLOCKS lathe_argmax_short_f16
#define FUNCTION_OF_PARTS lathe_argmax_parts_f16
#define BITS int16_t
#define UNSIGNED uint16_t
#define INFINITE 0x7c00
#include "row.h"

#define FUNCTION lathe_argmax_row_bf16
#define FUNCTION_IN_SHORT_BLOCKS lathe_argmax_short_bf16
#define FUNCTION_OF_PARTS lathe_argmax_parts_bf16
#define BITS int16_t
#define UNSIGNED uint16_t
#define INFINITE 0x7f80
#include "row.h"
