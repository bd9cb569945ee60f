// The argument block: one plain struct with the arguments of every op on every target.
//
// A CPU kernel receives a pointer to it. A GPU kernel receives its fields as parameters, in this order and
// with natural alignment, so CUDA's parameter buffer and AMD's kernarg segment have the same layout. The
// table below is the ABI: it defines the struct and the signatures of generated kernels.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lathe {

// X(kind, name): kind is ptr, i64, i32 or f32. Strides are in elements; pointers are to element (0, 0) of
// batch 0.
#define LATHE_ARGUMENT_BLOCK(X)                                                                              \
  X(ptr, a)         /* matmul: A.                     argmax: X */                                           \
  X(ptr, b)         /* matmul: B */                                                                          \
  X(ptr, c)         /* matmul: C, not read when beta is 0. Sums of slots: router weights, ldc apart */       \
  X(ptr, d)         /* matmul: D.                     argmax, matmul_argmax: indices */                      \
  X(ptr, bias)      /* matmul: N elements */                                                                 \
  X(ptr, residual)  /* matmul: M by N */                                                                     \
  X(ptr, values)    /* kDeviceM: M. grouped: routing; CPU: M + M offsets, A, D. argmax: rows f32, or null */ \
  X(ptr, workspace) /* shared by the launch: partial results of splits */                                    \
  X(ptr, counters)  /* zeroed once, reset by the kernels */                                                  \
  X(ptr, scratch)   /* CPU: private memory of this worker, 64-byte aligned */                                \
  X(ptr, scale_a)   /* matmul of i8: 1 or M scales, f32 */                                                   \
  X(ptr, scale_b)   /* matmul of i8: 1 or N scales, f32. Of blocks with scales apart: those, plain */        \
  X(ptr, zero_a)    /* i8: the zero point of A, i32. Block scales, GPUs: A's factor, f32, or null */         \
  X(ptr, zero_b)    /* i8: 1 or N zero points of B, i32. Block scales, GPUs: a factor per group, or null */  \
  X(i64, lda)       /* leading dimensions */                                                                 \
  X(i64, ldb)                                                                                                \
  X(i64, ldc)                                                                                                \
  X(i64, ldd)                                                                                                \
  X(i64, ldr)                                                                                                \
  X(i64, stride_a) /* batch strides */                                                                       \
  X(i64, stride_b)                                                                                           \
  X(i64, stride_c) /* grouped: between the routing of two tokens */                                          \
  X(i64, stride_d)                                                                                           \
  X(i64, stride_r)     /* grouped: from group to group of the bias, whose columns are `form` apart */        \
  X(i64, index_offset) /* argmax, matmul_argmax: added to every index. elementwise: first batch index */     \
  X(i64, form) /* generic kernels: layouts, dtypes and activation (core/generic.h). grouped: see stride_r */ \
  X(i64, scale_a_matrix) /* GPUs, scales of blocks apart: ScaleSteps of A's (core/block_scaled.h) */         \
  X(i64, scale_a_line128)                                                                                    \
  X(i64, scale_a_line32)                                                                                     \
  X(i64, scale_a_line)                                                                                       \
  X(i64, scale_a_block16)                                                                                    \
  X(i64, scale_a_block4)                                                                                     \
  X(i64, scale_a_block)                                                                                      \
  X(i64, scale_b_matrix) /* and of B's */                                                                    \
  X(i64, scale_b_line128)                                                                                    \
  X(i64, scale_b_line32)                                                                                     \
  X(i64, scale_b_line)                                                                                       \
  X(i64, scale_b_block16)                                                                                    \
  X(i64, scale_b_block4)                                                                                     \
  X(i64, scale_b_block)                                                                                      \
  X(i64, scale_b_first) /* the line of B's scales to which its column 0 belongs */                           \
  X(i64, scale_b_step)  /* lines from one column to the next */                                              \
  X(i32, m)             /* matmul: M. grouped: slots.     argmax: rows */                                    \
  X(i32, n)             /* matmul: N.                     argmax: row length */                              \
  X(i32, k)             /* matmul: K.                     argmax: 0 */                                       \
  X(i32, batch)   /* grouped: groups. index_offset is the slots of a token, or of a group (Rows::kCounts) */ \
  X(i32, splits)  /* matmul: splits of K.           argmax: splits of the row */                             \
  X(i32, k_chunk) /* matmul: K of every split but the last.  argmax: columns of every split but the last */  \
  X(f32, alpha)                                                                                              \
  X(f32, beta)

struct ArgumentBlock {
#define LATHE_FIELD_ptr(name) void* name = nullptr;
#define LATHE_FIELD_i64(name) int64_t name = 0;
#define LATHE_FIELD_i32(name) int32_t name = 0;
#define LATHE_FIELD_f32(name) float name = 0.0f;
#define LATHE_FIELD(kind, name) LATHE_FIELD_##kind(name)
  LATHE_ARGUMENT_BLOCK(LATHE_FIELD)
#undef LATHE_FIELD
#undef LATHE_FIELD_ptr
#undef LATHE_FIELD_i64
#undef LATHE_FIELD_i32
#undef LATHE_FIELD_f32
};
static_assert(sizeof(ArgumentBlock) == 14 * 8 + 28 * 8 + 6 * 4 + 2 * 4,
              "the argument block must have no padding");

enum class ArgumentKind { ptr, i64, i32, f32 };
struct ArgumentField {
  ArgumentKind kind;
  const char* name;
  size_t offset;
};
inline constexpr ArgumentField kArgumentFields[] = {
#define LATHE_FIELD(kind, name) {ArgumentKind::kind, #name, offsetof(ArgumentBlock, name)},
    LATHE_ARGUMENT_BLOCK(LATHE_FIELD)
#undef LATHE_FIELD
};

// The signature of every CPU kernel. `task` is the linear index in the step's grid:
// (z * grid_y + y) * grid_x + x.
using CpuTask = void (*)(const ArgumentBlock* args, int64_t task);

}  // namespace lathe
