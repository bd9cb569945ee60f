/* Lathe: what a request is made of: statuses, dtypes, operands and the ops' descriptors. Included by lathe/lathe.h, which
 * states the conventions. */
#ifndef LATHE_TYPES_H
#define LATHE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LATHE_API __attribute__((visibility("default")))
#else
#define LATHE_API
#endif

#define LATHE_VERSION_MAJOR 0
#define LATHE_VERSION_MINOR 1
#define LATHE_VERSION_PATCH 0

/* ---- Status */

typedef enum lathe_status {
  LATHE_OK = 0,
  LATHE_INVALID_ARGUMENT = 1, /* The request contradicts its own contract: fix the caller. */
  LATHE_UNSUPPORTED = 2,      /* A legal request that this version or this device has no kernel for. */
  /* Something that Lathe needs is missing or denied: a device, a driver, the compiler library, a file, a permission.
   * The message names it. */
  LATHE_NOT_AVAILABLE = 3,
  LATHE_OUT_OF_MEMORY = 4,
  LATHE_COMPILE_FAILED = 5, /* The compiler rejected a kernel: a defect of Lathe; the message names the stage. */
  LATHE_MISS = 6, /* Policy LATHE_MISS_ERROR and the class is not in the device's table. Nothing changed. */
  /* The stream is being captured, which forbids something that the call needs, such as loading a kernel. Nothing
   * changed. */
  LATHE_CAPTURE_MISS = 7,
  LATHE_TIMEOUT = 8,
  LATHE_INTERNAL = 9, /* A broken invariant of Lathe itself. */
  LATHE_CANCELLED = 10
} lathe_status;

/* "OK", "INVALID_ARGUMENT", ...; never NULL. */
LATHE_API const char* lathe_status_name(lathe_status status);
/* The calling thread's last failure, "" if none. Valid until that thread's next failing call. */
LATHE_API const char* lathe_last_error(void);
/* "0.1.0" */
LATHE_API const char* lathe_version(void);

/* ---- Extension chain */

typedef enum lathe_chain_kind {
  LATHE_CHAIN_WORKSPACE = 1, /* lathe_workspace, on an op descriptor */
  LATHE_CHAIN_TUNING = 2,    /* lathe_tuning, on an op descriptor */
  LATHE_CHAIN_EXTERNAL = 3   /* lathe_external, on an op descriptor */
} lathe_chain_kind;

/* The first fields of every struct that can stand in a `next` chain. */
typedef struct lathe_chain {
  size_t struct_size;
  const struct lathe_chain* next;
  uint32_t kind; /* lathe_chain_kind */
  uint32_t reserved;
} lathe_chain;

/* ---- Numbers and layouts */

typedef enum lathe_dtype {
  LATHE_DTYPE_NONE = 0,
  LATHE_F32 = 1,
  LATHE_F16 = 2,
  LATHE_BF16 = 3,
  LATHE_I32 = 4,
  LATHE_I64 = 5,
  LATHE_I8 = 6,      /* -128..127 */
  LATHE_F8_E4M3 = 7, /* OCP fp8: 3 bits of mantissa, largest 448, no infinity, NaN 0x7f and 0xff */
  LATHE_F8_E5M2 = 8, /* OCP fp8: 2 bits of mantissa, largest 57344, infinities and NaNs as IEEE's */
  /* FNUZ fp8, what gfx942 (MI300) multiplies: exponents one lower, no infinity, no -0, one NaN 0x80. */
  LATHE_F8_E4M3_FNUZ = 9, /* 3 bits of mantissa, largest 240 */
  LATHE_F8_E5M2_FNUZ = 10, /* 2 bits of mantissa, largest 57344 */
  /* Weights of 4 bits in blocks of 32 along K, as llama.cpp's Q4_0 stores them. A block is 18 bytes: an f16 scale,
   * then 16 bytes whose lower halves are elements 0..15, upper halves 16..31. A number q of 0..15 means
   * scale * (q - 8). */
  LATHE_Q4_0 = 11
} lathe_dtype;

/* Element (i, j) of a matrix is at i * leading_dimension + j (ROW_MAJOR) or at j * leading_dimension + i
 * (COLUMN_MAJOR, "transposed"). PyTorch's Linear weight [N, K] is operand B (K by N) stored COLUMN_MAJOR with
 * leading dimension K. The lines of a matrix are its rows (ROW_MAJOR) or its columns (COLUMN_MAJOR); lathe_operand
 * states the rule for their distance. */
typedef enum lathe_layout { LATHE_ROW_MAJOR = 0, LATHE_COLUMN_MAJOR = 1 } lathe_layout;

typedef enum lathe_activation {
  LATHE_ACTIVATION_NONE = 0,
  LATHE_ACTIVATION_RELU = 1,      /* max(x, 0); NaN stays NaN */
  LATHE_ACTIVATION_GELU = 2,      /* x * 0.5 * (1 + erf(x / sqrt(2))) */
  LATHE_ACTIVATION_GELU_TANH = 3, /* x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
  LATHE_ACTIVATION_SILU = 4       /* x / (1 + exp(-x)) */
} lathe_activation;

/* The numeric recipe a request is held to: {instruction kind, K order, split boundaries, merge order}. */
typedef enum lathe_determinism {
  LATHE_DETERMINISM_FAST = 0,
  LATHE_DETERMINISM_RUN_TO_RUN = 1, /* Same request, same device, same worker count: same bits. */
  /* A row's bits depend on (N, K, dtypes, target) alone, never on M: one recipe shared by all M buckets. */
  LATHE_DETERMINISM_BATCH_INVARIANT = 2
} lathe_determinism;

/* What may stand in for products in f32. Dtypes that a value does not name take no notice of it, nor do devices
 * without the instructions. */
typedef enum lathe_math {
  LATHE_MATH_STRICT = 0, /* f32 */
  LATHE_MATH_TF32 = 1,   /* f32 by f32: rounded to tf32 (10 bits of mantissa), products summed in f32 */
  /* B of LATHE_Q4_0: A may be rounded to bytes, each 32 elements of a row of it from a multiple of 32 on by a
   * scale of their own (their largest magnitude / 127): an error of at most half of that scale in each. Products
   * of bytes are summed exactly within a block, blocks in f32. What a NaN or an infinity in A touches is NaN or
   * infinite. */
  LATHE_MATH_INT8 = 2,
  /* A of f32 by B of bf16: A may be rounded to bf16 (to the nearest: an error of at most 2^-8 of each
   * element; from (2 - 2^-8) * 2^127 on infinite, and below 2^-126, B's elements too, perhaps 0), products summed in
   * f32. */
  LATHE_MATH_BF16 = 3
} lathe_math;

/* Whether a kernel may start while the one before it in the stream still runs (programmatic dependent launch, sm_90 and
 * later; other devices take no notice): its workgroups then take the place of those that have ended, and wait for the
 * whole kernel before with what it wrote, before they touch memory. Kernels of the caller's own may follow and precede; an
 * earlier one that never says that its dependents may start costs nothing and gains nothing. Other code is generated: part
 * of a request's class, as a plan's or a warm-up's descriptor gives it. */
typedef enum lathe_dependent_launch {
  LATHE_DEPENDENT_LAUNCH_OFF = 0,
  LATHE_DEPENDENT_LAUNCH_ON = 1,
  /* And B (a weight) may be read before the kernel ahead of this one in the stream is over: the caller promises that none
   * that may still run then writes it. argmax has no B: as ON. */
  LATHE_DEPENDENT_LAUNCH_CONSTANT_B = 2
} lathe_dependent_launch;

typedef enum lathe_miss_policy {
  LATHE_MISS_DEFAULT = 0, /* On a call: the context's policy. On a context: BLOCK. */
  LATHE_MISS_BLOCK = 1,   /* Compile now; the call waits. */
  /* Run now on a generic kernel, which ships prebuilt (fallback_bundle), and compile the class's own on a
   * thread of the context's; calls after that take it. A request above DETERMINISM_FAST never changes its
   * numeric recipe: its miss blocks (argmax, exact by whatever kernel, falls back), as do those of plans, of
   * a lathe_tuning and of what no generic kernel serves. Where the bundle is missing, damaged or another
   * build's, or the device refuses its code, misses block too, which a warning says once; what then fails
   * (NOT_AVAILABLE without a compiler) names both causes. */
  LATHE_MISS_FALLBACK = 2,
  LATHE_MISS_ERROR = 3 /* Return LATHE_MISS, change nothing. */
} lathe_miss_policy;

typedef enum lathe_granularity {
  LATHE_PER_TENSOR = 0,  /* one for all */
  LATHE_PER_CHANNEL = 1, /* of A: M of them, one a row (token); of B: N, one a column (output channel) */
  LATHE_PER_BLOCK = 2    /* reserved: UNSUPPORTED in this version (LATHE_Q4_0 holds its scales itself) */
} lathe_granularity;

/* The scale of a quantised operand: A or B of i8 on the CPU; others are UNSUPPORTED. Shared by the batch. */
typedef struct lathe_scale {
  size_t struct_size;
  const lathe_chain* next;
  const void* data;  /* device memory, packed */
  lathe_dtype dtype; /* LATHE_F32 */
  lathe_granularity granularity;
  int64_t block_size; /* elements of K per scale, PER_BLOCK only; else must be 0 */
} lathe_scale;
#define LATHE_SCALE_INIT \
  { sizeof(lathe_scale), NULL, NULL, LATHE_DTYPE_NONE, LATHE_PER_TENSOR, 0 }

/* One matrix, or a batch of them.
 *
 * The lines of a matrix must not overlap, in inputs and outputs. With two or more lines, leading_dimension is 0
 * (packed) or at least the length of a line; anything else is INVALID_ARGUMENT. With one line or none it is not read
 * and may have any value, also a negative one, so PyTorch's stride of a dimension of extent 1 can be passed unchanged.
 * In the same way, batch_stride is not read if the batch has one matrix or none. In a larger batch, the matrices of an
 * input may overlap each other (those of a packed B only if the stride is 0). A value that is not read changes neither
 * the result nor the kernel's class. Some ops have no such distance, and the field must then be 0 whatever the sizes:
 * batch_stride of lathe_argmax and lathe_matmul_argmax, leading_dimension of a packed B, leading_dimension of an
 * elementwise input without rows, and batch_stride of one without a batch. */
typedef struct lathe_operand {
  size_t struct_size;
  const lathe_chain* next;
  void* data; /* device memory; any alignment down to one element's bytes, and below (slower) */
  lathe_dtype dtype;
  lathe_layout layout;
  /* Elements between the starts of two lines; 0 means packed: the number of columns (rows if COLUMN_MAJOR). */
  int64_t leading_dimension;
  int64_t batch_stride; /* elements between the starts of two matrices of a batch; 0 broadcasts (inputs only) */
  const lathe_scale* scale; /* of i8: its elements count this much; NULL: 1 */
  /* A and B of i8 on the CPU: i32 in device memory, the numbers that stand for 0; NULL: 0. A's is one; B's are as many
   * as its scale has, one where it has none. Others: must be NULL. */
  const void* zero_point;
  /* A matmul's B on the CPU: the id of the layout that lathe_pack_weights gave it; then leading_dimension must be
   * 0, `layout` makes no difference and batch_stride counts elements of packed matrices. 0 everywhere else. */
  uint32_t packed_layout;
  uint32_t reserved;         /* must be 0 */
} lathe_operand;
#define LATHE_OPERAND_INIT \
  { sizeof(lathe_operand), NULL, NULL, LATHE_DTYPE_NONE, LATHE_ROW_MAJOR, 0, 0, NULL, NULL, 0, 0 }

/* d = activation(alpha * A B + beta * C + bias) + residual, evaluated in f32 in this order, rounded once when
 * stored. beta == 0 never reads C. alpha == 0 still reads A and B (their NaNs propagate). */
typedef struct lathe_epilogue {
  size_t struct_size;
  const lathe_chain* next;
  float alpha;
  float beta;
  const void* bias; /* N elements, one per column of D, shared by the batch; NULL: none */
  lathe_dtype bias_dtype;
  lathe_activation activation;
  lathe_operand residual;    /* M by N, ROW_MAJOR; data NULL: none */
  const float* alpha_device; /* reserved: must be NULL */
  const float* beta_device;  /* reserved: must be NULL */
} lathe_epilogue;
#define LATHE_EPILOGUE_INIT                                                                  \
  {                                                                                          \
    sizeof(lathe_epilogue), NULL, 1.0f, 0.0f, NULL, LATHE_DTYPE_NONE, LATHE_ACTIVATION_NONE, \
        LATHE_OPERAND_INIT, NULL, NULL                                                       \
  }

/* ---- Op descriptors */

/* D[b] (M by N) = epilogue(A[b] (M by K) * B[b] (K by N), C[b] (M by N)).
 * A and B: the same dtype, either layout; or B as below. C and D: ROW_MAJOR.
 *   A, B                   summed in   C, D, bias, residual
 *   f32, f16, bf16         f32         f32, f16 or bf16, each its own
 *   f32 by f16, by bf16    f32         the same. On the CPU alone. B is widened exactly as it is read
 *   f8e4m3, f8e5m2, and
 *   both of FNUZ           f32         the same
 *   f32, f16, bf16 by q4_0 f32         the same. On the CPU alone. B COLUMN_MAJOR; K, its leading dimension and
 *                                      its batch stride multiples of 32
 *   i8                     i32         the same: the exact sum becomes f32 once, for the epilogue. Where operands
 *                                      have scales, AB is (scale_a * scale_b) * the sum of (a - zero_point_a) *
 *                                      (b - zero_point_b)
 *   i8                     i32         D i32: the exact sum itself. alpha 1, beta 0, no scale, bias,
 *                                      activation or residual (INVALID_ARGUMENT otherwise)
 *
 * i32 sums are exact to K = 131071, with a zero point (which is to be one of i8, -128 to 127) to K = 65792, with
 * both operands' to K = 33025, and wrap modulo 2^32 beyond. What a device has no kernel for is UNSUPPORTED: fp8 on
 * the CPU in this version. M, N, K, batch in [0, 2^31 - 1]; any of M, N, batch 0 does nothing; K == 0 gives the
 * epilogue of a zero product (A and B may then be NULL). Negative sizes, distances that break lathe_operand's rule, and
 * operands that span 2^63 bytes are INVALID_ARGUMENT.
 *
 * D may be exactly C or exactly the residual (same data, same dtype, equal distances where they are read), and may be
 * a column slice of the buffer that an input is another column slice of (equal leading dimensions in bytes,
 * batch strides multiples of them; if M = 1, the batch strides play the role of the leading dimensions). Any other D
 * whose first to last byte meets an input's is INVALID_ARGUMENT. The matrices of D must not overlap each other
 * either: when batch > 1, either batch_stride >= (M - 1) * leading_dimension + N (one matrix after the other) or,
 * side by side in wider rows (heads of an attention layer), batch_stride >= N and leading_dimension >= (batch - 1) *
 * batch_stride + N. */
typedef struct lathe_matmul_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t m, n, k;
  int64_t batch; /* 1 for a single matmul */
  lathe_operand a, b, c, d;
  lathe_epilogue epilogue;
  lathe_determinism determinism;
  lathe_miss_policy miss_policy; /* LATHE_MISS_DEFAULT: the context's */
  const int32_t* m_device;       /* reserved (device-resident M): must be NULL */
  lathe_math math;
  lathe_dependent_launch dependent_launch;
} lathe_matmul_desc;
#define LATHE_MATMUL_DESC_INIT                                                                             \
  {                                                                                                        \
    sizeof(lathe_matmul_desc), NULL, 0, 0, 0, 1, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT,                   \
        LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_EPILOGUE_INIT, LATHE_DETERMINISM_FAST,               \
        LATHE_MISS_DEFAULT, NULL, LATHE_MATH_STRICT, LATHE_DEPENDENT_LAUNCH_OFF                            \
  }

/* For each row of X (rows by n, ROW_MAJOR; f32, f16, bf16): the column of its maximum plus index_offset.
 * The lowest index wins a tie; NaN counts as the maximum and the first NaN wins; a row of -inf gives 0.
 * rows and n in [0, 2^31 - 1]; n >= 1 when rows >= 1 (INVALID_ARGUMENT otherwise); rows 0 does nothing. The
 * largest index plus index_offset must fit index_dtype. No output may overlap X or the other output. */
typedef struct lathe_argmax_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t rows, n;
  lathe_operand x;         /* batch_stride unused: must be 0 */
  void* indices;           /* rows elements of index_dtype */
  lathe_dtype index_dtype; /* LATHE_I32 or LATHE_I64 */
  int64_t index_offset;    /* added to every index: the first column of a vocabulary shard */
  float* values;           /* rows elements, the maximum as f32; NULL: not wanted */
  lathe_determinism determinism;
  lathe_miss_policy miss_policy;
  lathe_dependent_launch dependent_launch;
} lathe_argmax_desc;
#define LATHE_ARGMAX_DESC_INIT                                                                             \
  {                                                                                                        \
    sizeof(lathe_argmax_desc), NULL, 0, 0, LATHE_OPERAND_INIT, NULL, LATHE_I64, 0, NULL,                   \
        LATHE_DETERMINISM_FAST, LATHE_MISS_DEFAULT, LATHE_DEPENDENT_LAUNCH_OFF                             \
  }

/* For each row of A B (+ bias), rounded to logits_dtype: the column of its maximum plus index_offset, by
 * lathe_argmax's rules; the products themselves are never stored (greedy decoding's output layer). The result
 * is that of a lathe_matmul of the same numeric recipe to D of logits_dtype followed by lathe_argmax. A
 * vocabulary in shards: one call a shard with its index_offset and values, then the greatest value (the first
 * NaN), the lowest index among equals. A and B: f32, f16 or bf16, the same dtype, on the CPU also f32 by f16 and
 * by bf16; either layout; batch_stride unused: must be 0. M, N, K in [0, 2^31 - 1]; M 0 does nothing; N 0 with
 * M >= 1 is INVALID_ARGUMENT; K 0 compares the bias (A and B may then be NULL). The largest index plus
 * index_offset must fit index_dtype. No output may overlap an input or the other output. Splits of K are refused
 * (lathe_tuning): partial sums cannot be compared. */
typedef struct lathe_matmul_argmax_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t m, n, k;
  lathe_operand a, b;
  const void* bias; /* N elements; NULL: none */
  lathe_dtype bias_dtype;
  lathe_dtype logits_dtype; /* f32, f16 or bf16: what a sum is rounded to before it is compared */
  void* indices;            /* M elements of index_dtype */
  lathe_dtype index_dtype;  /* LATHE_I32 or LATHE_I64 */
  int64_t index_offset;     /* added to every index: the first column of a vocabulary shard */
  float* values; /* M elements, the greatest logit as f32 (a zero may lose its sign); NULL: not wanted */
  lathe_determinism determinism;
  lathe_miss_policy miss_policy;
  lathe_math math;
  lathe_dependent_launch dependent_launch;
} lathe_matmul_argmax_desc;
#define LATHE_MATMUL_ARGMAX_DESC_INIT                                                                      \
  {                                                                                                        \
    sizeof(lathe_matmul_argmax_desc), NULL, 0, 0, 0, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, NULL,         \
        LATHE_DTYPE_NONE, LATHE_DTYPE_NONE, NULL, LATHE_I64, 0, NULL, LATHE_DETERMINISM_FAST,              \
        LATHE_MISS_DEFAULT, LATHE_MATH_STRICT, LATHE_DEPENDENT_LAUNCH_OFF                                  \
  }

/* Chain element: the caller's workspace in the device's memory, at least lathe_plan_workspace_bytes() long,
 * 64-byte aligned, not shared by two calls in flight. Without it the library uses a slab of its own; on a GPU
 * one for each stream, so a graph that may run beside other work of the stream it was captured on, or beside
 * another graph from that stream, needs workspaces of the caller's. Where a kernel counts its workgroups they
 * cost it a memset ahead of the launch, unless they are zeroed ones. On ROCm not fine-grained or host memory, where
 * the atomic operations of that count may have no effect. */
typedef struct lathe_workspace {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind;  /* LATHE_CHAIN_WORKSPACE */
  uint32_t flags; /* LATHE_WORKSPACE_ZEROED or 0 */
  void* data;
  size_t bytes;
} lathe_workspace;
#define LATHE_WORKSPACE_INIT \
  { sizeof(lathe_workspace), NULL, LATHE_CHAIN_WORKSPACE, 0, NULL, 0 }
/* GPU: the caller zeroed all of the workspace, ahead of the first launch with it in stream order, and since then nothing
 * but launches with this flag, of whatever plans, wrote to it, all with the same `data` and `bytes`, one after the other.
 * Then no launch has a memset: each leaves the counters zero, and one that fails zeroes them again in its stream (its
 * error says so where it could not). `bytes` is at least twice lathe_plan_workspace_bytes(). On the CPU: no difference. */
#define LATHE_WORKSPACE_ZEROED 1u

/* Chain element: overrides the oracle for this request (tuners, tests). 0 leaves a choice to the oracle. */
typedef struct lathe_tuning {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_TUNING */
  uint32_t reserved;
  /* split-K factor, 1..65535; normalised so that no split is empty. argmax: workgroups for all rows together.
   */
  int32_t split_k;
  int32_t candidate; /* 1 + rank of the candidate to take, as lathe_plan_explain lists them */
} lathe_tuning;
#define LATHE_TUNING_INIT \
  { sizeof(lathe_tuning), NULL, LATHE_CHAIN_TUNING, 0, 0, 0 }

/* Libraries of matrix products that may be on the machine; opened at run time where they are wanted, never needed. */
typedef enum lathe_external_library {
  LATHE_EXTERNAL_ANY = 0,
  LATHE_EXTERNAL_OPENBLAS = 1, /* CPU: libopenblas.so.0 */
  LATHE_EXTERNAL_ONEDNN = 2,   /* CPU: libdnnl.so.3, libdnnl.so.2 */
  LATHE_EXTERNAL_CUBLASLT = 3, /* CUDA: libcublasLt.so.13, libcublasLt.so.12 */
  LATHE_EXTERNAL_HIPBLASLT = 4 /* ROCm: libhipblaslt.so.1, libhipblaslt.so.0, libhipblaslt.so */
} lathe_external_library;
typedef enum lathe_external_use {
  LATHE_EXTERNAL_DEFAULT = 0, /* On a request: the context's. On a context: as $LATHE_EXTERNAL says, else OFF. */
  LATHE_EXTERNAL_OFF = 1,
  LATHE_EXTERNAL_ALLOW = 2,  /* where the oracle predicts that the library is faster than Lathe's own kernels */
  LATHE_EXTERNAL_PREFER = 3, /* wherever the library does the op; else Lathe's own kernel */
  LATHE_EXTERNAL_REQUIRE = 4 /* the library or UNSUPPORTED; what needs no kernel (an M of 0, say) is done all the same */
} lathe_external_use;

/* Chain element: whether an external library does this request. A library is asked only for what it does as this
 * interface says (lathe_plan_explain has the reason where it does not), and at LATHE_DETERMINISM_FAST alone. A library
 * that cannot be opened, or that fails in a call, is a warning, and Lathe's own kernel does the request (REQUIRE:
 * NOT_AVAILABLE). */
typedef struct lathe_external {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_EXTERNAL */
  uint32_t reserved;
  lathe_external_use use;
  lathe_external_library which; /* ANY: whichever does it, the one predicted to be the fastest */
} lathe_external;
#define LATHE_EXTERNAL_INIT \
  { sizeof(lathe_external), NULL, LATHE_CHAIN_EXTERNAL, 0, LATHE_EXTERNAL_DEFAULT, LATHE_EXTERNAL_ANY }

#ifdef __cplusplus
}
#endif
#endif /* LATHE_TYPES_H */
