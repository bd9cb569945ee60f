/* Lathe: the types of a request: statuses, dtypes, operands and op descriptors. lathe/lathe.h includes this file and
 * states the rules that hold everywhere. */
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
  LATHE_INVALID_ARGUMENT = 1, /* The request breaks a rule of this API: fix the caller. */
  LATHE_UNSUPPORTED = 2,      /* A legal request that this version or this device has no kernel for. */
  /* Something that Lathe needs is missing or denied: a device, a driver, the compiler library, a file, a permission.
   * The message names it. */
  LATHE_NOT_AVAILABLE = 3,
  LATHE_OUT_OF_MEMORY = 4,
  LATHE_COMPILE_FAILED = 5, /* The compiler rejected a kernel: a defect of Lathe. The message names the stage. */
  LATHE_MISS = 6, /* The policy is LATHE_MISS_ERROR and the class is not in the device's table. Nothing changed. */
  /* The stream is being captured, and the call needs something that a capture forbids, such as loading a kernel.
   * Nothing changed. */
  LATHE_CAPTURE_MISS = 7,
  LATHE_TIMEOUT = 8,
  LATHE_INTERNAL = 9, /* A defect of Lathe, or a GPU fault. */
  LATHE_CANCELLED = 10
} lathe_status;

/* "OK", "INVALID_ARGUMENT", ...; never NULL. */
LATHE_API const char* lathe_status_name(lathe_status status);
/* Message of the calling thread's last failure, "" if there was none. Valid until that thread's next failing call. */
LATHE_API const char* lathe_last_error(void);
/* "0.1.0" */
LATHE_API const char* lathe_version(void);

/* ---- Extension chain */

typedef enum lathe_chain_kind {
  LATHE_CHAIN_WORKSPACE = 1, /* lathe_workspace, on an op descriptor */
  LATHE_CHAIN_TUNING = 2,    /* lathe_tuning, on an op descriptor */
  LATHE_CHAIN_EXTERNAL = 3   /* lathe_external, on an op descriptor */
} lathe_chain_kind;

/* The first fields of every struct that may appear in a `next` chain. */
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
  LATHE_F8_E4M3 = 7, /* OCP fp8: 3 mantissa bits, largest value 448, no infinity, NaN is 0x7f and 0xff */
  LATHE_F8_E5M2 = 8, /* OCP fp8: 2 mantissa bits, largest value 57344, infinities and NaNs as in IEEE 754 */
  /* FNUZ fp8, the formats that gfx942 (MI300) multiplies: exponent bias one higher, no infinity, no -0, NaN is 0x80. */
  LATHE_F8_E4M3_FNUZ = 9, /* 3 mantissa bits, largest value 240 */
  LATHE_F8_E5M2_FNUZ = 10, /* 2 mantissa bits, largest value 57344 */
  /* Weights in blocks along K, stored byte for byte as in a GGUF file. The structs are in ggml's ggml-common.h
   * (block_q4_0 and so on), the values those of its dequantize_row_q4_0 and so on in ggml-quants.c. Scales are f16
   * unless noted. GPUs multiply Q4_0, Q8_0, Q4_1, Q4_K, Q6_K and MXFP4.
   *                     elements  bytes  value of a code q */
  LATHE_Q4_0 = 11,   /*        32     18  scale * (q - 8), q of 4 bits */
  LATHE_Q8_0 = 12,   /*        32     34  scale * q, q of -128..127 */
  LATHE_Q4_1 = 13,   /*        32     20  scale * q + min, q of 4 bits */
  LATHE_Q5_0 = 14,   /*        32     22  scale * (q - 16), q of 5 bits */
  LATHE_Q5_1 = 15,   /*        32     24  scale * q + min, q of 5 bits */
  LATHE_Q4_K = 16,   /*       256    144  scale * s * q - min * m, q of 4 bits; s and m of 6 bits for 32 elements */
  LATHE_Q5_K = 17,   /*       256    176  scale * s * q - min * m, q of 5 bits; s and m of 6 bits for 32 elements */
  LATHE_Q6_K = 18,   /*       256    210  scale * s * (q - 32), q of 6 bits; s of -128..127 for 16 elements */
  LATHE_IQ4_NL = 19, /*        32     18  scale * table[q], 16 values of -127..113 */
  LATHE_IQ4_XS = 20, /*       256    136  scale * (s - 32) * table[q], the same table; s of 6 bits for 32 elements */
  LATHE_MXFP4 = 21,  /*        32     17  2^(e - 127) * e2m1[q]; one byte e, then q of 4 bits */
  LATHE_F4_E2M1 = 22, /* OCP fp4, two elements in a byte, the first one in its lower half. With block scales only */
  LATHE_F8_E8M0 = 23, /* a scale of one byte e: 2^(e - 127); 255 is NaN */
  /* Weights of 4 bits with a scale and a zero point for every 128 elements of K, as AWQ and GPTQ store them: words of 8
   * codes. lathe_pack_weights makes LATHE_U4_128 of them, and nothing else takes them. */
  LATHE_U4_AWQ = 24,     /* words [K][N / 8]; columns 0, 2, 4, 6, 1, 3, 5, 7 from the lowest bits on */
  LATHE_U4_GPTQ = 25,    /* words [K / 8][N], the lowest bits first; a zero point is stored less 1 */
  LATHE_U4_GPTQ_V2 = 26, /* the same, but the zero point is stored as it is */
  /* Blocks of 128 elements of K in 68 bytes: f16 scale, the zero point as a byte, a byte 0, then the codes. Byte i of
   * each 16 has code i of 32 in its lower half and code 16 + i in its upper half. The value is scale * (code - zero) */
  LATHE_U4_128 = 27
} lathe_dtype;

/* Position of element (i, j) of a matrix: i * leading_dimension + j if ROW_MAJOR, j * leading_dimension + i if
 * COLUMN_MAJOR ("transposed"). For example, a PyTorch Linear weight [N, K] is operand B (K by N), COLUMN_MAJOR, with
 * leading dimension K. In this file a "line" is a row of a ROW_MAJOR matrix or a column of a COLUMN_MAJOR one;
 * lathe_operand says how far apart lines may be. */
typedef enum lathe_layout { LATHE_ROW_MAJOR = 0, LATHE_COLUMN_MAJOR = 1 } lathe_layout;

typedef enum lathe_activation {
  LATHE_ACTIVATION_NONE = 0,
  LATHE_ACTIVATION_RELU = 1,      /* max(x, 0); NaN stays NaN */
  LATHE_ACTIVATION_GELU = 2,      /* x * 0.5 * (1 + erf(x / sqrt(2))) */
  LATHE_ACTIVATION_GELU_TANH = 3, /* x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
  LATHE_ACTIVATION_SILU = 4,      /* x / (1 + exp(-x)) */
  /* The two halves of gpt-oss's gate, whose product is taken with LATHE_COMBINE_MULTIPLY. NaN stays NaN. */
  LATHE_ACTIVATION_SILU_CLAMPED = 5,  /* y / (1 + exp(-1.702 y)) with y = min(x, 7) */
  LATHE_ACTIVATION_CLAMP_PLUS_ONE = 6 /* max(min(x, 7), -7) + 1 */
} lathe_activation;

/* What an epilogue does with its residual. */
typedef enum lathe_combine {
  LATHE_COMBINE_ADD = 0,
  LATHE_COMBINE_MULTIPLY = 1 /* a gate: silu(A B) * residual, with the residual from the product with the up weight */
} lathe_combine;

/* How much of the numeric recipe is fixed: instruction kind, order of K, split boundaries and merge order. */
typedef enum lathe_determinism {
  LATHE_DETERMINISM_FAST = 0,       /* nothing is promised */
  LATHE_DETERMINISM_RUN_TO_RUN = 1, /* The same request, device and number of workers give the same bits. */
  /* The bits of a row depend on N, K, dtypes and target, and never on M: all M buckets share one recipe. */
  LATHE_DETERMINISM_BATCH_INVARIANT = 2
} lathe_determinism;

/* Less precise arithmetic that a kernel may use instead of f32. A value has no effect on other dtypes, or on devices
 * that lack the instructions. */
typedef enum lathe_math {
  LATHE_MATH_STRICT = 0, /* f32 */
  LATHE_MATH_TF32 = 1,   /* A and B of f32: both may be rounded to tf32 (10 mantissa bits); sums are in f32 */
  /* B in a block format: A may be rounded to signed bytes, as ggml's CPU backend rounds it. Each block of elements of a
   * row of A (32, or 256 if B's blocks have 256) then has one scale (its largest magnitude / 127), and each element an
   * error of at most half that scale. In blocks of 32 the scale is rounded to f16, and so is the sum that multiplies
   * the minimum of a block of B: beyond 65504 they are infinite. Sums are exact within a group of B that shares a
   * scale, and in f32 across groups. A NaN or infinity in A makes the results that use it NaN or infinite. */
  LATHE_MATH_INT8 = 2,
  /* A of f32, B of bf16: A may be rounded to the nearest bf16, with a relative error of at most 2^-8; sums are in f32.
   * Elements of A from (2 - 2^-8) * 2^127 on become infinite. Elements of A and B below 2^-126 may become 0. */
  LATHE_MATH_BF16 = 3
} lathe_math;

/* Programmatic dependent launch (sm_90 and later; no effect elsewhere): whether a kernel may start while the previous
 * kernel in the stream still runs. Its workgroups take the place of finished ones and, before they touch memory, wait
 * until the previous kernel has ended and its writes are visible. The caller's own kernels may come before and after. A
 * previous kernel that does not trigger its dependents gives no gain and costs nothing. The generated code differs, so
 * this is part of the class: warm up and plan with the same value. */
typedef enum lathe_dependent_launch {
  LATHE_DEPENDENT_LAUNCH_OFF = 0,
  LATHE_DEPENDENT_LAUNCH_ON = 1,
  /* As ON, and the kernel may also read B (a weight) before the previous kernel has ended. The caller promises that no
   * kernel that may still be running writes B. argmax has no B, so it behaves as ON. */
  LATHE_DEPENDENT_LAUNCH_CONSTANT_B = 2
} lathe_dependent_launch;

/* What a call does if its class is not in the device's dispatch table (a miss). */
typedef enum lathe_miss_policy {
  LATHE_MISS_DEFAULT = 0, /* On a call: the context's policy. On a context: BLOCK. */
  LATHE_MISS_BLOCK = 1,   /* Load or compile the kernel now; the call waits. */
  /* Run now on a generic kernel from fallback_bundle, and compile the class's own kernel on a thread of the context;
   * later calls use it. These misses block all the same: plans; requests with a lathe_tuning; requests above
   * DETERMINISM_FAST, whose numeric recipe must not change (but argmax is exact with any kernel and does fall back);
   * and requests that no generic kernel serves. If the bundle is missing, damaged or from another build, or if the
   * device refuses its code, all misses block, and one warning says so. If blocking then fails for lack of a compiler,
   * the message (NOT_AVAILABLE) names both causes. */
  LATHE_MISS_FALLBACK = 2,
  LATHE_MISS_ERROR = 3 /* Return LATHE_MISS and change nothing. */
} lathe_miss_policy;

typedef enum lathe_granularity {
  LATHE_PER_TENSOR = 0,  /* one scale */
  LATHE_PER_CHANNEL = 1, /* for A: M scales, one per row (token); for B: N scales, one per column (output channel) */
  LATHE_PER_BLOCK = 2    /* one for block_size elements of K of one line, or of 128 lines of B */
} lathe_granularity;

/* The order of PER_BLOCK scales. A scale belongs to block b (of K) and line l: row l of a ROW_MAJOR A, or column l of a
 * COLUMN_MAJOR B. With block_lines 128 l counts groups of 128 columns. "ld" is leading_dimension. */
typedef enum lathe_scale_layout {
  LATHE_SCALES_BY_LINE = 0,  /* at l * ld + b; ld 0: the number of blocks */
  LATHE_SCALES_BY_BLOCK = 1, /* at b * ld + l; ld 0: the number of lines. DeepGEMM's and PyTorch's order for A */
  /* F8_E8M0 only: four blocks in a 32-bit word, the first in its lowest byte; word at b / 4 * ld + l. ld counts words;
   * 0: the number of lines. DeepGEMM's order on sm_100a, which rounds ld up to 4. */
  LATHE_SCALES_PACKED_BY_FOUR = 2,
  /* Scales of one byte. Tiles of 128 lines by 4 blocks of 512 bytes each, in BY_LINE order; in a tile a scale is at
   * l % 32 * 16 + l / 32 % 4 * 4 + b % 4. ld must be 0. Lines are padded to 128 and blocks to 4. The order of cuBLASLt
   * and PyTorch's _scaled_mm for scales per 16 or 32. */
  LATHE_SCALES_TILED = 3
} lathe_scale_layout;

/* Scales of an operand A or B, in device memory. i8 has PER_TENSOR and PER_CHANNEL scales of F32, which all matrices of
 * a batch share; on GPUs they are UNSUPPORTED in this version. fp8 and fp4 have PER_BLOCK scales:
 *   elements                 scales    block_size
 *   F8_E4M3                  F32       128         of A one per row; of B block_lines is 1 or 128 (DeepSeek)
 *   F8_E4M3                  F8_E8M0   128         the same
 *   F8_E4M3, F8_E5M2         F8_E8M0   32          MXFP8
 *   F4_E2M1                  F8_E8M0   32          MXFP4
 *   F4_E2M1                  F8_E4M3   16          NVFP4, with `global`
 * For U4_AWQ, U4_GPTQ and U4_GPTQ_V2 in lathe_pack_weights: PER_BLOCK, F16, block_size 128, BY_BLOCK. Fields after
 * block_size are 0 without PER_BLOCK. */
typedef struct lathe_scale {
  size_t struct_size;
  const lathe_chain* next;
  const void* data;  /* device memory; read when the request runs */
  lathe_dtype dtype;
  lathe_granularity granularity;
  int64_t block_size;  /* elements of K per scale; 0 without PER_BLOCK */
  int64_t block_lines; /* lines per scale; 0: 1 */
  lathe_scale_layout layout;
  uint32_t reserved;         /* must be 0 */
  int64_t leading_dimension; /* see lathe_scale_layout */
  /* Scales (PACKED_BY_FOUR: words) from one matrix of a batch, or one group's B, to the next; 0: all share them, as
   * they must if they share one B. Matrices of a batched B must not overlap otherwise (UNSUPPORTED). Of a grouped A, as
   * A's batch_stride: from group to group with COUNTS, from slot to slot with INDEXED. */
  int64_t batch_stride;
  /* One f32 in device memory by which all scales are multiplied; NULL: 1. Of a grouped B one per group. */
  const float* global;
  const int32_t* group_index; /* GPTQ's g_idx, K values in host memory, k / 128 each (else UNSUPPORTED); may be NULL */
} lathe_scale;
#define LATHE_SCALE_INIT                                                                                        \
  {                                                                                                             \
    sizeof(lathe_scale), NULL, NULL, LATHE_DTYPE_NONE, LATHE_PER_TENSOR, 0, 0, LATHE_SCALES_BY_LINE, 0, 0, 0,   \
        NULL, NULL                                                                                              \
  }

/* One matrix, or a batch of them. The caller owns the data.
 *
 * The lines of a matrix (see lathe_layout) must not overlap, in inputs and in outputs. If there are at least two lines,
 * leading_dimension must be 0 (packed) or at least the length of a line; anything else is INVALID_ARGUMENT. If there
 * are fewer, it is not read and may have any value, even a negative one: PyTorch's stride of a dimension of size 1 may
 * be passed unchanged. In the same way, batch_stride is not read if the batch has fewer than two matrices. In a larger
 * batch, the matrices of an input may overlap each other (those of a packed B only if batch_stride is 0). A value that
 * is not read affects neither the result nor the class.
 * Some ops have no such distance. Then the field must be 0 for all sizes: batch_stride of lathe_argmax and
 * lathe_matmul_argmax, leading_dimension of a packed B, leading_dimension of an elementwise input without rows, and
 * batch_stride of an elementwise input without a batch. */
typedef struct lathe_operand {
  size_t struct_size;
  const lathe_chain* next;
  void* data; /* device memory, any address; data that is not aligned to one element is slower */
  lathe_dtype dtype;
  lathe_layout layout;
  /* Elements from the start of one line to the next. 0: packed, that is, the number of columns (rows if
   * COLUMN_MAJOR). */
  int64_t leading_dimension;
  int64_t batch_stride; /* elements from one matrix of a batch to the next; 0 broadcasts (inputs only) */
  const lathe_scale* scale; /* i8, fp8 and fp4: the value of one unit of an element; NULL: 1 */
  /* i8 A and B on the CPU: i32 in device memory, the values that stand for 0; NULL: 0. A has one. B has as many as its
   * scale, or one if it has no scale. In lathe_pack_weights of U4_AWQ and U4_GPTQ: qzeros, words [K / 128][N / 8] of
   * each matrix; NULL: 8. Must be NULL for other operands. */
  const void* zero_point;
  /* B of a product: the layout id from lathe_packed_layout, for data from lathe_pack_weights. Then
   * leading_dimension must be 0, `layout` has no effect, and batch_stride counts elements of packed matrices. 0 for
   * every other operand. */
  uint32_t packed_layout;
  uint32_t reserved;         /* must be 0 */
} lathe_operand;
#define LATHE_OPERAND_INIT \
  { sizeof(lathe_operand), NULL, NULL, LATHE_DTYPE_NONE, LATHE_ROW_MAJOR, 0, 0, NULL, NULL, 0, 0 }

/* d = activation(alpha * A B + beta * C + bias) + residual, or times residual (combine), evaluated in f32 in this
 * order and rounded once, when it is stored. beta == 0 never reads C. alpha == 0 still reads A and B, so their NaNs
 * propagate. */
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
  lathe_combine combine;     /* MULTIPLY needs a residual */
  uint32_t reserved;         /* must be 0 */
} lathe_epilogue;
#define LATHE_EPILOGUE_INIT                                                                  \
  {                                                                                          \
    sizeof(lathe_epilogue), NULL, 1.0f, 0.0f, NULL, LATHE_DTYPE_NONE, LATHE_ACTIVATION_NONE, \
        LATHE_OPERAND_INIT, NULL, NULL, LATHE_COMBINE_ADD, 0                                 \
  }

/* ---- Op descriptors */

/* D[b] (M by N) = epilogue(A[b] (M by K) * B[b] (K by N), C[b] (M by N)), for each b of the batch.
 * A and B have the same dtype, except in the pairs below, and any layout. C and D are ROW_MAJOR.
 *   A and B                 sums   C, D, bias, residual
 *   f32, f16, bf16          f32    f32, f16 or bf16, each independently
 *   f32 with f16 or bf16    f32    the same. CPU only. B is converted to f32 exactly when it is read
 *   f8e4m3, f8e5m2 and
 *   both FNUZ formats       f32    the same
 *   f32, f16, bf16 with
 *   a block format          f32    the same. GPUs have some of the formats. B is COLUMN_MAJOR; K and B's leading
 *                                  dimension and batch stride are multiples of the block's elements
 *   fp8, fp4, f32, f16,
 *   bf16 with fp8 or fp4    f32    the same. B has PER_BLOCK scales, and so has A if it is fp8 or fp4. A is ROW_MAJOR
 *                                  if it has scales, B is COLUMN_MAJOR. K and B's distances are multiples of the
 *                                  block's elements (of 32 for fp4). Values are decoded to f32;
 *                                  tensor cores scale the sums of blocks instead
 *   i8                      i32    the same: the exact sum is converted to f32 once, for the epilogue. With scales and
 *                                  zero points, AB is scale_a * scale_b * sum((a - zero_point_a) * (b - zero_point_b))
 *   i8                      i32    D is i32, the exact sum. alpha 1, beta 0, no scale, bias, activation or residual
 *                                  (else INVALID_ARGUMENT)
 *
 * i32 sums are exact up to K = 131071, with a zero point on one operand up to K = 65792, and on both up to K = 33025;
 * beyond, they wrap modulo 2^32. Zero points must be in -128..127. UNSUPPORTED: the device has no kernel, as for fp8 on
 * the CPU in this version.
 * M, N, K and batch are in [0, 2^31 - 1]. If M, N or batch is 0, nothing happens. If K is 0, D is the epilogue of a
 * zero product, and A and B may be NULL. INVALID_ARGUMENT: negative sizes, distances that break lathe_operand's rules,
 * and operands that span 2^63 bytes or more.
 * With m_device, M is *m_device, and `m` is its upper limit, for which kernels are planned and memory is described.
 * Rows from M on are neither read nor written. On a GPU the kernel reads M, so a captured graph replays with another M;
 * a value below 0 counts as 0, one above `m` as `m`. On the CPU the call reads M, and one outside [0, m] is
 * INVALID_ARGUMENT; a plan takes the kernel of another class if M is below its bucket, but slices do not.
 *
 * D may be exactly C or exactly the residual: the same data and dtype, and the same distances where they are read. D
 * and an input may also be different column slices of one buffer: equal leading dimensions in bytes, and batch strides
 * that are multiples of them (if M is 1, the batch strides take the part of the leading dimensions). Any other D whose
 * range of bytes, first to last, meets an input's is INVALID_ARGUMENT. The matrices of D must not overlap each other.
 * So if batch > 1, they lie one after the other (batch_stride >= (M - 1) * leading_dimension + N), or side by side in
 * wider rows like attention heads (batch_stride >= N and leading_dimension >= (batch - 1) * batch_stride + N). */
typedef struct lathe_matmul_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t m, n, k;
  int64_t batch; /* 1 for a single matmul */
  lathe_operand a, b, c, d;
  lathe_epilogue epilogue;
  lathe_determinism determinism;
  lathe_miss_policy miss_policy; /* LATHE_MISS_DEFAULT: the context's */
  const int32_t* m_device;       /* M in device memory, see above; NULL: M is `m` */
  lathe_math math;
  lathe_dependent_launch dependent_launch;
} lathe_matmul_desc;
#define LATHE_MATMUL_DESC_INIT                                                                             \
  {                                                                                                        \
    sizeof(lathe_matmul_desc), NULL, 0, 0, 0, 1, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT,                   \
        LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_EPILOGUE_INIT, LATHE_DETERMINISM_FAST,               \
        LATHE_MISS_DEFAULT, NULL, LATHE_MATH_STRICT, LATHE_DEPENDENT_LAUNCH_OFF                            \
  }

/* For each row of X (rows by n, ROW_MAJOR; f32, f16 or bf16): the column of its maximum, plus index_offset. The lowest
 * index wins a tie. NaN counts as the maximum, and the first NaN wins. A row of -inf gives column 0.
 * rows and n are in [0, 2^31 - 1]. If rows is 0, nothing happens; else n must be at least 1. The largest index plus
 * index_offset must fit index_dtype. No output may overlap X or the other output. Breaking one of these rules is
 * INVALID_ARGUMENT. */
typedef struct lathe_argmax_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t rows, n;
  lathe_operand x;         /* batch_stride must be 0 */
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

/* For each row of A B (+ bias), rounded to logits_dtype: the column of its maximum, plus index_offset, by the rules of
 * lathe_argmax. This is the output layer of greedy decoding; the products are never stored. The result equals that of a
 * lathe_matmul with the same numeric recipe and D of logits_dtype, followed by lathe_argmax.
 * A vocabulary in shards: make one call per shard, with its index_offset and `values`. Then take the shard with the
 * greatest value (or the first NaN); among equal values the lowest index wins.
 * A and B: f32, f16 or bf16, the same dtype, or on the CPU f32 with f16 or bf16; any layout. B may also be in a block
 * format or packed, by the rules of lathe_matmul; under LATHE_MISS_FALLBACK a miss blocks then. To pack B, describe a
 * lathe_matmul with the same A, B, `determinism` and `math`. M, N and K are in [0, 2^31 - 1]. If M is 0, nothing
 * happens; else N must be at least 1. If K is 0, the bias is compared, and A and B may be NULL. The largest index plus
 * index_offset must fit index_dtype. No output may overlap an input or the other output. K is never split, because
 * partial sums cannot be compared: split_k > 1 is refused. */
typedef struct lathe_matmul_argmax_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t m, n, k;
  lathe_operand a, b; /* batch_stride must be 0 */
  const void* bias; /* N elements; NULL: none */
  lathe_dtype bias_dtype;
  lathe_dtype logits_dtype; /* f32, f16 or bf16: a sum is rounded to it before it is compared */
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

/* Chain element: the caller's workspace. It is device memory, aligned to 64 bytes, at least
 * lathe_plan_workspace_bytes() long, and not used by two calls in flight. Without it the library uses its own
 * workspace, on a GPU one per stream. So a captured graph needs a workspace of the caller's if it may run beside other
 * work of the stream it was captured on, or beside another graph from that stream. Kernels that count workgroups then
 * need a memset before each launch, unless LATHE_WORKSPACE_ZEROED is set. On ROCm, do not use fine-grained or host
 * memory: atomic operations may not work there. Products with block scales and grouped products do not use it; they
 * take all their memory from the library. */
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
/* GPU only: no launch with this workspace needs a memset. The caller promises that it zeroed the whole workspace before
 * the first such launch in stream order; that since then only launches with this flag wrote to it, of any plans, one
 * after the other, all with the same `data` and `bytes`; and that `bytes` is at least twice
 * lathe_plan_workspace_bytes(). Each launch leaves the counters zero. A launch that fails zeroes them again in its
 * stream, or its error says that it could not. */
#define LATHE_WORKSPACE_ZEROED 1u

/* Chain element: overrides the oracle's choice for this request (for tuners and tests). 0 leaves a choice to the
 * oracle. A grouped product takes `candidate` only, for each of its products, and on GPUs only. */
typedef struct lathe_tuning {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_TUNING */
  uint32_t reserved;
  /* Split-K factor, 1..65535; reduced if needed so that no split is empty. argmax: total number of workgroups for all
   * rows. */
  int32_t split_k;
  int32_t candidate; /* the candidate's "rank" in lathe_plan_explain's JSON; 1 is the oracle's choice */
} lathe_tuning;
#define LATHE_TUNING_INIT \
  { sizeof(lathe_tuning), NULL, LATHE_CHAIN_TUNING, 0, 0, 0 }

/* External libraries for matrix products. They are optional, and opened at run time only if a policy allows them. */
typedef enum lathe_external_library {
  LATHE_EXTERNAL_ANY = 0,
  LATHE_EXTERNAL_OPENBLAS = 1, /* CPU: libopenblas.so.0 */
  LATHE_EXTERNAL_ONEDNN = 2,   /* CPU: libdnnl.so.3, libdnnl.so.2 */
  LATHE_EXTERNAL_CUBLASLT = 3, /* CUDA: libcublasLt.so.13, libcublasLt.so.12 */
  LATHE_EXTERNAL_HIPBLASLT = 4 /* ROCm: libhipblaslt.so.1, libhipblaslt.so.0, libhipblaslt.so */
} lathe_external_library;
typedef enum lathe_external_use {
  LATHE_EXTERNAL_DEFAULT = 0, /* On a request: the context's. On a context: what $LATHE_EXTERNAL says, else OFF. */
  LATHE_EXTERNAL_OFF = 1,
  LATHE_EXTERNAL_ALLOW = 2,  /* if the oracle predicts that the library is faster than Lathe's own kernels */
  LATHE_EXTERNAL_PREFER = 3, /* whenever the library can serve the request; else Lathe's own kernel */
  LATHE_EXTERNAL_REQUIRE = 4 /* the library, else UNSUPPORTED; a request that needs no kernel (M is 0) still succeeds */
} lathe_external_use;

/* Chain element: whether an external library serves this request. A library is used only where its results keep this
 * API's promises, and only at LATHE_DETERMINISM_FAST; lathe_plan_explain shows why one was refused. If a library cannot
 * be opened or a call to it fails, a warning is logged and Lathe's own kernel runs (REQUIRE: NOT_AVAILABLE). */
typedef struct lathe_external {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_EXTERNAL */
  uint32_t reserved;
  lathe_external_use use;
  lathe_external_library which; /* ANY: the one predicted to be the fastest */
} lathe_external;
#define LATHE_EXTERNAL_INIT \
  { sizeof(lathe_external), NULL, LATHE_CHAIN_EXTERNAL, 0, LATHE_EXTERNAL_DEFAULT, LATHE_EXTERNAL_ANY }

#ifdef __cplusplus
}
#endif
#endif /* LATHE_TYPES_H */
