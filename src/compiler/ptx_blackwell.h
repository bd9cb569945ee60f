// Instructions of the fifth-generation tensor cores (sm_100a) as functions: tensor memory, and products of operands in
// blocks with scales. All are inline PTX. Tensor memory has 128 lanes of 512 columns of 32 bits. An address (i32) has
// the lane in its upper half and the column in its lower half.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// --- tensor memory
// Allocates columns, a power of two of at least 32, and stores their address to shared memory at `to`. One warp
// allocates and frees; all its lanes must run these. It waits while other workgroups have the columns.
void allocate_tensor_memory(Emit& e, Value to, int64_t columns);
void free_tensor_memory(Emit& e, Value address, int64_t columns);
// Order the tensor core's work before a barrier, and after one.
void fence_before_barrier(Emit& e);
void fence_after_barrier(Emit& e);
// Loads `count` adjacent f32 columns of the lanes that this warp may read, one lane for each thread, and waits.
Values load_tensor_memory(Emit& e, Value address, int64_t count);

// --- products, issued by one thread, which run asynchronously in order of issue
// The descriptor (i64) of an operand in shared memory: rows of 128 bytes along K with the 128-byte swizzle.
Value product_descriptor(Emit& e, Value shared);
// Copies a tile of scales (128 lines by 4, 512 bytes) from shared memory to 4 columns of tensor memory.
void copy_scales(Emit& e, Value to, Value shared);

// A kind of product of operands in blocks. An instruction takes 32 bytes of each row along K.
struct ScaledKind {
  const char* name;    // of the instruction's kind
  int64_t scales;      // of each line that an instruction uses: 1, 2 or 4 of a tile's 4
  int64_t a, b;        // numbers of the element types
  bool powers_of_two;  // the scales are E8M0, else E4M3 without a sign
};
// D (128 rows by n columns of f32 at `sums`) += A * B, or = if `accumulate` (i32) is 0. The scales of A are at
// `scales_a`, the first of them is number `first` of the tile's 4.
void multiply_scaled(Emit& e, const ScaledKind& kind, int64_t n, Value sums, Value a, Value b, Value scales_a,
                     Value scales_b, int64_t first, Value accumulate);
// The mbarrier gets one arrival when all earlier products and copies of this thread have ended.
void arrive_after_products(Emit& e, Value barrier);

}  // namespace lathe::emit
