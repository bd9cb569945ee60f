// targets: x86-64-v3 x86-64-v4 aarch64
//
// Column of a row's maximum: the lowest of equals, the first NaN over everything, 0 where all are -inf. Rows
// may lie at any address; nothing outside of them is read.
//
// Values are compared as the bits they are. Of one sign they order as integers do, so that three integer
// maxima and minima a vector tell whether a block may hold what rises over the best so far, or a NaN; only
// such a block is read again, and the best one's column is sought once, at the end.
//
// Zen 4, f32: blocks of 32 vectors read cold rows at 31 GB/s and rows in L2 at 102; of 16, with two maxima
// chosen by the best's sign, at 27 and 105; of 64 at 30 and 92.
// Zen 5, f32 in C: blocks of 32 read cold rows of 151936 at 34 GB/s and rows of 32000 in L2 at 164, of 16 at
// 42 and 196, of 8 at 44 and 192, of 4 at 42 and 171; bf16 at 33 and 150, 40 and 183, 42 and 177, 40 and 157.
// Zen 3 reads one stream slowly: bf16 in C, cold, at 12.7 GB/s, by two, four and eight parts side by side at
// 15.3, 17.2 and 17.3, where eight streams are read at 18.7.
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
