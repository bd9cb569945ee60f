/* Lathe: kernels cut to a shape on first use, cached, launched.
 *
 * The public C API (C99). Conventions that hold for every declaration below:
 *
 *  - Every struct starts with its own size (`struct_size`) and a `next` chain. Start from the LATHE_*_INIT
 *    macros, which set the size and zero the rest. A size this library does not know is INVALID_ARGUMENT; an
 *    element of a chain with a `kind` it does not know is UNSUPPORTED. Nothing is ever silently ignored.
 *  - Functions return a lathe_status. On failure lathe_last_error() gives, for the calling thread, one line
 * that names the request and the cause. No call throws, aborts or exits the host process.
 *  - Handles are opaque. A device belongs to its context, a plan to its device: destroy in reverse order.
 *  - Sizes are in elements unless the name says bytes; times are in nanoseconds unless the name says
 * otherwise.
 *  - Threads: every function may be called from any thread at any time, except that destroying a handle must
 * not race with its use. Two calls on the same stream that both use the library's own workspace are ordered
 * by the stream on a GPU; on the CPU each call is synchronous and concurrent calls get separate slabs.
 *  - The environment is read once, in lathe_context_create, for what lathe_context_options says.
 */
#ifndef LATHE_LATHE_H
#define LATHE_LATHE_H

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

/* ---- Status ----------------------------------------------------------------------------------------------
 */

typedef enum lathe_status {
  LATHE_OK = 0,
  LATHE_INVALID_ARGUMENT = 1, /* The request contradicts its own contract: fix the caller. */
  LATHE_UNSUPPORTED = 2,      /* A legal request that this version or this device has no kernel for. */
  LATHE_NOT_AVAILABLE = 3, /* A device, driver, or the compiler library is missing; the message says why. */
  LATHE_OUT_OF_MEMORY = 4,
  LATHE_COMPILE_FAILED =
      5,          /* The compiler rejected a kernel: a defect of Lathe; the message names the stage. */
  LATHE_MISS = 6, /* Policy LATHE_MISS_ERROR and the class is not in the device's table. Nothing changed. */
  LATHE_CAPTURE_MISS = 7, /* A miss while the stream is capturing. Nothing was changed. */
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

/* ---- Extension chain
 * --------------------------------------------------------------------------------------- */

typedef enum lathe_chain_kind {
  LATHE_CHAIN_WORKSPACE = 1, /* lathe_workspace, on an op descriptor */
  LATHE_CHAIN_TUNING = 2     /* lathe_tuning, on an op descriptor */
} lathe_chain_kind;

/* The first fields of every struct that can stand in a `next` chain. */
typedef struct lathe_chain {
  size_t struct_size;
  const struct lathe_chain* next;
  uint32_t kind; /* lathe_chain_kind */
  uint32_t reserved;
} lathe_chain;

/* ---- Numbers and layouts
 * ------------------------------------------------------------------------------------- */

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
 * leading dimension K. */
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
  LATHE_MATH_INT8 = 2
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
  LATHE_MISS_BLOCK = 1,   /* Compile now, on the calling thread. */
  /* Run now on a generic kernel, which ships prebuilt (fallback_bundle), and compile the class's own on a
   * thread of the context's; calls after that take it. A request above DETERMINISM_FAST never changes its
   * numeric recipe: its miss blocks (argmax, exact by whatever kernel, falls back), as do those of plans, of
   * a lathe_tuning and of what no generic kernel serves. NOT_AVAILABLE where the bundle is missing or
   * damaged. */
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

/* One matrix, or a batch of them. */
typedef struct lathe_operand {
  size_t struct_size;
  const lathe_chain* next;
  void* data; /* device memory; any alignment down to one element's bytes, and below (slower) */
  lathe_dtype dtype;
  lathe_layout layout;
  int64_t leading_dimension; /* elements; 0 means packed: the number of columns (rows if COLUMN_MAJOR) */
  int64_t batch_stride;      /* elements between matrices of a batch; 0 broadcasts (inputs only) */
  const lathe_scale* scale;  /* of i8: its elements count this much; NULL: 1 */
  /* A of i8 on the CPU: an i32 in device memory, the number that stands for 0; NULL: 0. Others: must be NULL. */
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

/* ---- Op descriptors
 * ------------------------------------------------------------------------------------------ */

/* D[b] (M by N) = epilogue(A[b] (M by K) * B[b] (K by N), C[b] (M by N)).
 * A and B: the same dtype, either layout; or B LATHE_Q4_0. C and D: ROW_MAJOR.
 *   A, B                   summed in   C, D, bias, residual
 *   f32, f16, bf16         f32         f32, f16 or bf16, each its own
 *   f8e4m3, f8e5m2, and
 *   both of FNUZ           f32         the same
 *   f32, f16, bf16 by q4_0 f32         the same. On the CPU alone. B COLUMN_MAJOR; K, its leading dimension and
 *                                      its batch stride multiples of 32
 *   i8                     i32         the same: the exact sum becomes f32 once, for the epilogue. Where operands
 *                                      have scales, AB is (scale_a * scale_b) * the sum of (a - zero_point_a) * b
 *   i8                     i32         D i32: the exact sum itself. alpha 1, beta 0, no scale, bias,
 *                                      activation or residual (INVALID_ARGUMENT otherwise)
 *
 * i32 sums are exact to K = 131071, with a zero point (which is to be one of i8, -128 to 127) to K = 65792, and wrap
 * modulo 2^32 beyond. What a device has no kernel for is UNSUPPORTED: fp8 on the CPU in this version. M, N, K,
 * batch in [0, 2^31 - 1]; any of M, N, batch 0 does nothing; K == 0 gives the epilogue of a zero product (A
 * and B may then be NULL). Negative sizes and distances, and operands that span 2^63 bytes, are
 * INVALID_ARGUMENT.
 *
 * D may be exactly C or exactly the residual (same data, dtype, leading dimension, batch stride), and may be
 * a column slice of the buffer that an input is another column slice of (equal leading dimensions in bytes,
 * batch strides multiples of them). Any other D whose first to last byte meets an input's is
 * INVALID_ARGUMENT. The rows of D must not overlap each other: leading_dimension >= N and, when batch > 1,
 * either batch_stride >= (M - 1) * leading_dimension + N (one matrix after the other) or, side by side in
 * wider rows (heads of an attention layer), batch_stride >= N and leading_dimension >= (batch - 1) *
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
 * NaN), the lowest index among equals. A and B: f32, f16 or bf16, the same dtype; either layout; batch_stride
 * unused: must be 0. M, N, K in [0, 2^31 - 1]; M 0 does nothing; N 0 with M >= 1 is INVALID_ARGUMENT; K 0
 * compares the bias (A and B may then be NULL). The largest index plus index_offset must fit index_dtype. No
 * output may overlap an input or the other output. Splits of K are refused (lathe_tuning): partial sums
 * cannot be compared. */
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
 * cost it a memset ahead of the launch. On ROCm not fine-grained or host memory, where the atomic operations of
 * that count may have no effect. */
typedef struct lathe_workspace {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_WORKSPACE */
  uint32_t reserved;
  void* data;
  size_t bytes;
} lathe_workspace;
#define LATHE_WORKSPACE_INIT \
  { sizeof(lathe_workspace), NULL, LATHE_CHAIN_WORKSPACE, 0, NULL, 0 }

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

/* ---- Context
 * --------------------------------------------------------------------------------------------------- */

typedef struct lathe_context lathe_context;
typedef struct lathe_device lathe_device;
typedef struct lathe_plan lathe_plan;
typedef void* lathe_stream; /* CUstream, hipStream_t; NULL on the CPU */

typedef enum lathe_log_level {
  LATHE_LOG_ERROR = 0,
  LATHE_LOG_WARNING = 1,
  LATHE_LOG_INFO = 2,
  LATHE_LOG_DEBUG = 3
} lathe_log_level;
/* Called from any thread, never with a lock of Lathe's held, never on the path of a dispatch hit. */
typedef void (*lathe_log_fn)(void* user, lathe_log_level level, const char* message);

/* Runs body(body_context, i) once for every i in [0, count), in any order, on any threads, and returns when
 * all have returned. `worker` is a slot in [0, workers): two bodies that run at once must be given different
 * slots. */
typedef void (*lathe_task_fn)(void* body_context, int64_t index, int32_t worker);
typedef void (*lathe_parallel_for_fn)(void* user, int64_t count, lathe_task_fn body, void* body_context);

/* Where kernels are compiled. */
typedef enum lathe_compiler_mode {
  LATHE_COMPILER_DEFAULT = 0, /* as $LATHE_COMPILER says ("inprocess" or "process"), else INPROCESS */
  LATHE_COMPILER_INPROCESS = 1,
  /* In programs of their own (lathe-compiler-process), started at the first miss, kept for a minute without work, at
   * most one a core: a crash, a hang, a fatal error and a lack of memory of the compiler are an error on the request
   * that met them (COMPILE_FAILED, TIMEOUT), and on that alone. The host's signals and files are left as they are; a
   * host that handles SIGCHLD sees processes that it has not started, and is best not to wait for them. */
  LATHE_COMPILER_PROCESS = 2
} lathe_compiler_mode;

typedef struct lathe_context_options {
  size_t struct_size;
  const lathe_chain* next;
  /* Cache directory; NULL: $LATHE_CACHE_DIR, else $XDG_CACHE_HOME/lathe, else $HOME/.cache/lathe; "": no
   * disk. */
  const char* cache_dir;
  /* Path of liblathe-compiler.so; NULL: $LATHE_COMPILER_LIBRARY, else beside this library. */
  const char* compiler_library;
  lathe_log_fn log; /* NULL: warnings and errors to stderr, or the level $LATHE_LOG names (error..debug) */
  void* log_user;
  lathe_log_level log_level; /* what reaches `log` */
  lathe_miss_policy miss_policy;
  /* CPU threads a call may use, the caller's included, at most 1024; 0: $LATHE_WORKERS, else one per core
   * this process may run on. With parallel_for: the number of worker slots, which must be given (1..1024,
   * INVALID_ARGUMENT otherwise; $LATHE_WORKERS is not read). Part of the policy the oracle sees. */
  int32_t workers;
  lathe_parallel_for_fn parallel_for; /* NULL: the context's own pool; otherwise `workers` >= 1 */
  void* parallel_for_user;
  /* 1: before each launch on a GPU, every pointer is looked up in the driver (about a microsecond each) and
   * host memory or another device's is INVALID_ARGUMENT, instead of a fault that loses the CUDA context. 0:
   * $LATHE_VALIDATE (0 or 1), else off. */
  int32_t validate;
  uint32_t reserved; /* must be 0 */
  /* Path of the generic kernels for LATHE_MISS_FALLBACK; NULL: $LATHE_FALLBACK_BUNDLE, else
   * lathe-fallback.bundle beside this library. Opened at the first miss that asks for it. */
  const char* fallback_bundle;
  /* What the entries of the cache directory may take, in bytes: before one is written, the least recently used
   * make room (down to 7/8 of it). 0: $LATHE_CACHE_BYTES ("500M", K, M, G and T of 1024; "unlimited"), else 4 GiB;
   * UINT64_MAX: no cap. More than sixteen processes that write at once may pass it for moments. */
  uint64_t cache_bytes;
  /* Paths of bundles (lathe_bundle_write), looked up in this order after the cache directory, never written to. NULL:
   * those that $LATHE_BUNDLES names, separated by ':'. Each is opened at the first miss and stays open; one that is
   * missing or damaged is a warning and a miss. */
  const char* const* bundles;
  size_t bundle_count;
  /* Files; NULL: those that $LATHE_RECORD, $LATHE_METRICS and $LATHE_TRACE name, "": none. "%p" in the latter two is the
   * process' id. One that cannot be written is a warning. None costs a dispatch hit anything.
   * record: a manifest of the classes that this context's devices met, each added at its first miss; processes may share
   * it. What a warm-up prepared does not miss: record a run without one.
   * metrics: the statistics as Prometheus' text, written every five seconds by a thread of its own, and at the end.
   * trace: misses, compilations and loads in Chrome's trace format; processes may share it. */
  const char* record;
  const char* metrics;
  const char* trace;
  lathe_compiler_mode compiler;
  /* What follows matters to LATHE_COMPILER_PROCESS alone. Seconds that compiling one kernel may take, after which it is
   * TIMEOUT; 0: $LATHE_COMPILER_SECONDS, else 120. */
  uint32_t compiler_seconds;
  /* Address space of one process; 0: $LATHE_COMPILER_BYTES ("4G", "unlimited"), else 8 GiB; UINT64_MAX: no limit. */
  uint64_t compiler_bytes;
  /* Path of the program; NULL: $LATHE_COMPILER_PROGRAM, else lathe-compiler-process beside this library. */
  const char* compiler_program;
  /* A Redis server that machines share, "redis://host[:port][/prefix]" (prefix "lathe"), looked into after the bundles:
   * a kernel is compiled once by all of them, each then keeping it in its own directory. NULL: $LATHE_REMOTE; "" or
   * unset: none. A server that is unreachable, slow or wrong is a warning and a miss, and costs a call at most 1.5 s
   * (the name's resolution aside), once in 5 s and then ever less often. Whoever may write there decides what this
   * process executes: name no server outside a network that you trust. */
  const char* remote;
} lathe_context_options;
#define LATHE_CONTEXT_OPTIONS_INIT                                                                         \
  {                                                                                                        \
    sizeof(lathe_context_options), NULL, NULL, NULL, NULL, NULL, LATHE_LOG_WARNING, LATHE_MISS_DEFAULT, 0, \
        NULL, NULL, 0, 0, NULL, 0, NULL, 0, NULL, NULL, NULL, LATHE_COMPILER_DEFAULT, 0, 0, NULL, NULL        \
  }

/* options may be NULL. Costs microseconds: nothing is loaded, no thread is started. */
LATHE_API lathe_status lathe_context_create(const lathe_context_options* options, lathe_context** context);
/* NULL is legal. All devices and plans of the context must be gone. */
LATHE_API void lathe_context_destroy(lathe_context* context);

/* Since the context was made. Every field but background_waiting only grows. */
typedef struct lathe_statistics {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t dispatch_hits;   /* calls served by the dispatch table (counted per device thread-shard) */
  uint64_t dispatch_misses; /* calls whose class the table did not hold, LATHE_MISS included */
  uint64_t memory_hits;     /* misses of the dispatch table served by an artifact in memory */
  uint64_t disk_hits;       /* ... by an artifact from disk */
  uint64_t compiles;        /* kernels compiled by this context */
  uint64_t compile_failures;
  uint64_t disk_rejects;       /* defective, foreign or mismatching cache files, each treated as a miss */
  double compile_milliseconds; /* wall time inside the compiler, its library's load aside */
  double compiler_load_milliseconds;
  double disk_load_milliseconds; /* reading and checking files */
  double link_milliseconds;      /* loading code onto a device */
  uint64_t artifact_bytes;       /* held in memory */
  uint64_t disk_bytes_read;
  uint64_t disk_bytes_written;
  uint64_t compiler_loaded; /* 1 once liblathe-compiler.so was mapped into this process */
  uint64_t
      fallback_runs; /* calls that ran on a generic kernel (LATHE_MISS_FALLBACK); each a dispatch miss too */
  uint64_t bundle_hits; /* misses of the dispatch table served by a bundle */
  uint64_t evictions; /* cache entries that this context removed to keep within cache_bytes */
  uint64_t kernel_loads;        /* of code onto a device; link_milliseconds is their time */
  uint64_t background_compiles; /* kernels made by the background thread (LATHE_MISS_FALLBACK) */
  uint64_t background_refused;  /* misses that found its queue full: they ran, and the next of their class asks again */
  uint64_t background_waiting;  /* classes in its queue now */
  uint64_t remote_hits; /* misses of the dispatch table served by the remote store */
  uint64_t remote_rejects; /* entries of the remote store that were refused, each treated as a miss */
} lathe_statistics;
#define LATHE_STATISTICS_INIT                                                                           \
  {                                                                                                     \
    sizeof(lathe_statistics), NULL, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0                                                                                      \
  }
LATHE_API lathe_status lathe_context_statistics(lathe_context* context, lathe_statistics* statistics);

/* A call whose class the device's table does not hold. */
typedef struct lathe_miss {
  size_t struct_size;
  const lathe_chain* next;
  const char* device;
  const char* problem;      /* "matmul f32 a=n b=t m=7 n=4096 k=33 batch=1" */
  const char* entry;        /* the class as an entry of a manifest */
  lathe_miss_policy policy; /* what the call does now */
  uint32_t capturing;       /* 1: its stream is being captured, so that it answers CAPTURE_MISS whatever the policy */
} lathe_miss;
/* Called at every miss but a warm-up's, on the thread whose call missed, before that call goes on; with no lock of
 * Lathe's held, so that it may call anything but what closes the call's device. A miss of its own calls does not call it
 * again. Pointers are valid during the call. Calls on several threads may run at once. */
typedef void (*lathe_miss_fn)(void* user, const lathe_miss* miss);
/* What calls do from now on whose miss_policy is DEFAULT (ERROR after a warm-up: nothing compiles unseen), and who is
 * told of misses; callback NULL: nobody. policy DEFAULT: as the context was made. Calls under way may still follow what
 * was set before, and so may call the callback before. */
LATHE_API lathe_status lathe_context_set_miss(lathe_context* context, lathe_miss_policy policy,
                                              lathe_miss_fn callback, void* user);

/* Receives text piece by piece; called on the calling thread before the function returns. */
typedef void (*lathe_text_fn)(void* user, const char* name, const char* text, size_t size);

/* The statistics as Prometheus' text format; one call of `text`. */
LATHE_API lathe_status lathe_context_metrics(lathe_context* context, lathe_text_fn text, void* user);

/* The disk cache as a JSON object, every entry read and checked, the least recently used (which goes first when room is
 * made) first:
 *   {"directory", "cap_bytes":N or null, "bytes":N, "hits":N, "made":N, "rejected":N, "defects":[{"file","cause"}...],
 *    "entries":[{"file", "bytes", "format", "age_seconds", "hits", "made", "metadata":{...}, "key":{...}}...]}
 * hits: how often a process read the entry; made: how often one wrote it; those of all include removed entries. They
 * are approximate (a crash loses some). "metadata" is what the compiler noted ("compile_milliseconds", "stages"). */
LATHE_API lathe_status lathe_cache_list(lathe_context* context, lathe_text_fn text, void* user);
/* Removes every entry of the disk cache (and nothing else in the directory); *removed may be NULL. */
LATHE_API lathe_status lathe_cache_clear(lathe_context* context, uint64_t* removed);
/* Removes the least recently used entries until the rest takes no more than `bytes`, and what killed processes left.
 * *removed, the number of entries, may be NULL. */
LATHE_API lathe_status lathe_cache_prune(lathe_context* context, uint64_t bytes, uint64_t* removed);

/* ---- Bundles: many artifacts in one file that is only read
 * --------------------------------------------------------- */

typedef struct lathe_bundle_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t entries;        /* taken */
  uint64_t payloads;       /* distinct artifacts among them: equal ones are stored once */
  uint64_t duplicates;     /* were there already; the first stays */
  uint64_t defects;        /* refused as damaged, and left out */
  uint64_t bytes;          /* of the bundle's file; 0 of an import */
  uint64_t unpacked_bytes; /* of the artifacts */
} lathe_bundle_report;
#define LATHE_BUNDLE_REPORT_INIT \
  { sizeof(lathe_bundle_report), NULL, 0, 0, 0, 0, 0, 0 }

/* Writes the bundle `path`, whole or not at all, of all that `source_count` cache directories and bundles hold: for any
 * number of targets, compressed, indexed. `target` NULL: everything; else what was made for it ("sm_90a", "x86-64").
 * A source that is neither: INVALID_ARGUMENT; a file that cannot be written: NOT_AVAILABLE. report may be NULL. */
LATHE_API lathe_status lathe_bundle_write(const char* path, const char* const* sources, size_t source_count,
                                          const char* target, lathe_bundle_report* report);
/* A bundle as JSON, every payload read and checked: {"path", "about":{...}, "bytes":N, "stored_bytes":N,
 * "unpacked_bytes":N, "rejected":N, "defects":[{"cause"}...], "entries":[{"stored_bytes", "bytes", "format",
 * "metadata":{...}, "key":{...}}...]}. INVALID_ARGUMENT: it is no bundle, or its index is damaged. */
LATHE_API lathe_status lathe_bundle_list(const char* path, lathe_text_fn text, void* user);
/* Writes a bundle's artifacts into the cache directory, those that it has excepted. NOT_AVAILABLE: there is none that can
 * be written. report may be NULL. */
LATHE_API lathe_status lathe_cache_import(lathe_context* context, const char* path, lathe_bundle_report* report);

/* ---- Devices
 * ----------------------------------------------------------------------------------------------------- */

/* Every device name this build knows, available or not, as JSON: [{"name":"cpu","available":true,"reason":"",
 * "target":{...},"facts":{fact:{"value":...,"source":"..."}}}, ...]. */
LATHE_API lathe_status lathe_devices(lathe_context* context, lathe_text_fn text, void* user);
/* "cpu", "cuda:0", "hip:0", ... NOT_AVAILABLE says why. Every device has a driver, a dispatch table and (CPU,
 * without a parallel_for) a pool of its own, whose threads start at the first launch that can use them. */
LATHE_API lathe_status lathe_device_open(lathe_context* context, const char* name, lathe_device** device);
/* A device that is only described: plans, explains, dumps and warms the cache for the facts file at
 * `facts_path`, and cannot run anything (NOT_AVAILABLE). `target` NULL takes the file's own target ("sm_90a",
 * "gfx942", "x86-64-avx512", ...). PTX for it is assembled by $LATHE_PTXAS, else the first ptxas on $PATH and
 * in $CUDA_HOME/bin
 * (/usr/local/cuda/bin) that knows the target, else libnvJitLink; without any, or with LATHE_PTXAS set but
 * empty, it is kept as PTX and the driver assembles it when the kernel is loaded. */
LATHE_API lathe_status lathe_device_describe(lathe_context* context, const char* facts_path,
                                             const char* target, lathe_device** device);
LATHE_API void lathe_device_close(lathe_device* device);
/* 64-bit fingerprint of facts, target, workers, oracle and codegen id: equal on ranks that will run identical
 * plans. */
LATHE_API lathe_status lathe_device_fingerprint(lathe_device* device, uint64_t* fingerprint);

/* ---- Device memory and streams
 * --------------------------------------------------------------------------------- */

/* For tools, tests and engines without an allocator of their own; an engine's own pointers and streams serve
 * as well. All of them need a device that runs (NOT_AVAILABLE on a described one) and may be called from any
 * thread, whichever CUDA context is current: it stays so. On a GPU an allocation and a release take
 * microseconds to milliseconds and may wait for the whole device; neither disturbs a stream that is being
 * captured. */

/* `bytes` of the device's memory, aligned to 64 bytes on the CPU and to 256 on a GPU, contents unspecified. 0
 * bytes: *memory is NULL. OUT_OF_MEMORY where there is no more. To be freed before the device closes. */
LATHE_API lathe_status lathe_device_alloc(lathe_device* device, size_t bytes, void** memory);
/* NULL is legal. Only for what lathe_device_alloc of this device gave, when no work that uses it is in
 * flight. */
LATHE_API lathe_status lathe_device_free(lathe_device* device, void* memory);

typedef enum lathe_copy_kind {
  LATHE_COPY_TO_DEVICE = 1, /* from host memory */
  LATHE_COPY_TO_HOST = 2,   /* from the device's memory */
  LATHE_COPY_ON_DEVICE = 3  /* from the device's memory to the device's memory */
} lathe_copy_kind;

/* Copies `bytes`, which must not overlap, after the stream's work so far and before what is given to it
 * later. On a GPU the call may return before the copy is done: `from` must stay as it is, and `to` unread,
 * until lathe_stream_synchronize. On the CPU, whose stream is NULL, the call returns when the copy is done,
 * and all memory is both host's and device's. */
LATHE_API lathe_status lathe_device_copy(lathe_device* device, lathe_stream stream, void* to,
                                         const void* from, size_t bytes, lathe_copy_kind kind);

/* A stream of the device's primary context that does not wait for the legacy default stream. On the CPU:
 * NULL. */
LATHE_API lathe_status lathe_stream_create(lathe_device* device, lathe_stream* stream);
/* Only for what lathe_stream_create gave. Returns at once; work in flight on the stream still completes. */
LATHE_API lathe_status lathe_stream_destroy(lathe_device* device, lathe_stream stream);
/* Blocks until all work given to the stream is done. A fault of a kernel shows here at the latest: INTERNAL.
 */
LATHE_API lathe_status lathe_stream_synchronize(lathe_device* device, lathe_stream stream);

/* ---- Running
 * ------------------------------------------------------------------------------------------------------ */

/* On the CPU the stream must be NULL and the call returns when the result is written. On a GPU all pointers
 * are the device's, the call returns when the work is in the stream, and a fault of the kernel shows later,
 * as a failure of whatever call on the context comes next ("the CUDA context is lost"). The work is done in
 * the stream's CUDA context; NULL and the other default streams mean those of the thread's current context if
 * that is of this device, else of its primary one. While the stream is being captured a request whose kernel
 * is loaded becomes part of the graph, and any other is CAPTURE_MISS. */
LATHE_API lathe_status lathe_matmul(lathe_device* device, lathe_stream stream, const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_argmax(lathe_device* device, lathe_stream stream, const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_matmul_argmax(lathe_device* device, lathe_stream stream,
                                           const lathe_matmul_argmax_desc* desc);

/* ---- Packed weights
 * ---------------------------------------------------------------------------------------------------- */

/* The layout in which this device's kernels would rather have the weight B of `desc` (its N, K, dtype and batch; data
 * pointers, M and the other operands' data are not read), one for every M, and the bytes it takes (a little more than
 * the weight). Ids carry a version: one that another release gave is INVALID_ARGUMENT where its layout is no longer
 * read, never a wrong result, so packed weights may be kept on disk beside their id. UNSUPPORTED where no packed layout
 * is read: on GPUs, and on the CPU for dtypes other than f32 and f16. layout and bytes must not be NULL. */
LATHE_API lathe_status lathe_packed_layout(lathe_device* device, const lathe_matmul_desc* desc, uint32_t* layout,
                                           size_t* bytes);
/* Packs B of `desc`, as its layout, leading dimension and batch stride say (a batch stride of 0: one matrix), into the
 * `bytes` at `packed`, which must be as many as lathe_packed_layout says, of any alignment, and must not overlap B. To
 * be used as B with this `layout` for packed_layout and a batch_stride of bytes / batch / size of an element, or of 0
 * where B's is 0. One thread reads and writes the weight once. */
LATHE_API lathe_status lathe_pack_weights(lathe_device* device, const lathe_matmul_desc* desc, uint32_t layout,
                                          void* packed, size_t bytes);

/* ---- Plans: chosen once, run many times
 * ---------------------------------------------------------------------------- */

/* Plans the request's problem class, compiles or loads its kernel (subject to the miss policy; a described
 * device only plans). Data pointers of `desc` are not read and may be NULL, but presence matters: a NULL
 * bias, residual or values means "none". The plan serves every request of the same class: the same everything
 * but pointers, leading dimensions, strides, batch, alpha, beta (zero or not is part of the class) and any M
 * of the bucket. */
LATHE_API lathe_status lathe_plan_matmul(lathe_device* device, const lathe_matmul_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                                         lathe_plan** plan);
LATHE_API lathe_status lathe_plan_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                                lathe_plan** plan);
LATHE_API void lathe_plan_destroy(lathe_plan* plan);

/* Bytes of workspace that running `plan` at its planned M and batch needs (0: none). */
LATHE_API lathe_status lathe_plan_workspace_bytes(lathe_plan* plan, size_t* bytes);
LATHE_API lathe_status lathe_plan_run_matmul(lathe_plan* plan, lathe_stream stream,
                                             const lathe_matmul_desc* desc);
LATHE_API lathe_status lathe_plan_run_argmax(lathe_plan* plan, lathe_stream stream,
                                             const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_plan_run_matmul_argmax(lathe_plan* plan, lathe_stream stream,
                                                    const lathe_matmul_argmax_desc* desc);

/* The plan as JSON: class, compile config, launch config, key, numeric recipe, facts used, predicted time,
 * and every other candidate with its prediction or the reason it was rejected:
 *   {"request", "device", "class":{}, "dims":{"m","n","k","batch"}, "target":{}, "facts":{}, "workers",
 * "codegen_id", "rank", "config":{},
 * "launch":{"wanted_splits","splits","k_chunk","workspace_bytes","scratch_bytes_per_worker"},
 *    "key":{"fingerprint","text"}, "numeric_recipe", "predicted_seconds", "legal",
 *    "candidates":[{"rank", "legal":bool, "config":{}, "splits", "predicted_seconds", "numeric_recipe"} or
 *                  {"rank", "legal":false, "config":{}, "splits", "rejection"}]}
 * "legal" counts the legal candidates, which come first; "rank" (1 is the oracle's choice) is what
 * lathe_tuning.candidate takes. "launch" has "wanted_splits" alone on a described device. From "rank" to
 * "predicted_seconds" is absent when no kernel is needed (N is 0, or K is 0 on the CPU; a GPU plans that as K
 * = 1 over zeros). */
LATHE_API lathe_status lathe_plan_explain(lathe_plan* plan, lathe_text_fn text, void* user);
/* Compiles the plan's kernel again and passes on the IR after each stage ("00-payload.mlir", ..., "llvm.ll",
 * "assembly.s" or "kernel.ptx"), the machine code's bytes ("kernel.o", "kernel.hsaco", or "kernel.cubin" for
 * a described device where an assembler is found), the launch recipe ("recipe.json") and how it was made:
 * milliseconds by stage, the assembler and what it said of registers and spills ("metadata.json").
 * pipeline_yaml NULL: the built-in pipeline. Nothing is cached. */
LATHE_API lathe_status lathe_plan_dump(lathe_plan* plan, const char* pipeline_yaml, lathe_text_fn text,
                                       void* user);

/* Slices (CPU only): the caller's own threads run a plan without a parallel-for. For each phase in [0,
 * phases), every worker in [0, workers), workers in 1..1024, calls lathe_plan_run_*_slice once, with a
 * barrier of the caller's between phases. The descriptor must chain a lathe_workspace of at least
 * lathe_plan_slice_workspace_bytes(). */
LATHE_API lathe_status lathe_plan_phases(lathe_plan* plan, int32_t* phases);
LATHE_API lathe_status lathe_plan_slice_workspace_bytes(lathe_plan* plan, int32_t workers, size_t* bytes);
LATHE_API lathe_status lathe_plan_run_matmul_slice(lathe_plan* plan, const lathe_matmul_desc* desc,
                                                   int32_t phase, int32_t worker, int32_t workers);
LATHE_API lathe_status lathe_plan_run_argmax_slice(lathe_plan* plan, const lathe_argmax_desc* desc,
                                                   int32_t phase, int32_t worker, int32_t workers);
LATHE_API lathe_status lathe_plan_run_matmul_argmax_slice(lathe_plan* plan,
                                                          const lathe_matmul_argmax_desc* desc, int32_t phase,
                                                          int32_t worker, int32_t workers);

/* ---- Manifests and warm-up
 * ------------------------------------------------------------------------------------------- */

/* A list of problem classes: from a text (src/core/manifest.h shows one), from descriptors, or both. It knows no device.
 * A call that changes a manifest must not run beside another on the same manifest. */
typedef struct lathe_manifest lathe_manifest;

LATHE_API lathe_status lathe_manifest_create(lathe_manifest** manifest);
/* NULL is legal. */
LATHE_API void lathe_manifest_destroy(lathe_manifest* manifest);
/* Adds what the text lists and the manifest has not yet. INVALID_ARGUMENT names the line and column of what is no JSON,
 * or the entry and field of what is wrong; then nothing is added. Any bytes are safe. */
LATHE_API lathe_status lathe_manifest_parse(lathe_manifest* manifest, const char* text, size_t size);
/* Adds every class of the weight that `desc` describes (its N, K, dtypes, layouts, epilogue form; M is ignored, data
 * pointers are not read but a NULL bias, residual or values means "none") with M from 1 to m_max, every alignment
 * included. `name`, for progress and errors, may be NULL. A weight of no columns has no class. */
LATHE_API lathe_status lathe_manifest_add_matmul(lathe_manifest* manifest, const char* name,
                                                 const lathe_matmul_desc* desc, int64_t m_max);
/* Every row length and number of rows. */
LATHE_API lathe_status lathe_manifest_add_argmax(lathe_manifest* manifest, const char* name,
                                                 const lathe_argmax_desc* desc);
LATHE_API lathe_status lathe_manifest_add_matmul_argmax(lathe_manifest* manifest, const char* name,
                                                        const lathe_matmul_argmax_desc* desc, int64_t m_max);
/* A word on where it comes from, kept in its text. */
LATHE_API lathe_status lathe_manifest_note(lathe_manifest* manifest, const char* name, const char* value);
/* The text, which lathe_manifest_parse reads back. */
LATHE_API lathe_status lathe_manifest_text(const lathe_manifest* manifest, lathe_text_fn text, void* user);
/* The classes that lathe_warmup would prepare on this device, each once; one call of `text` each: its entry's name and
 * the class as JSON. */
LATHE_API lathe_status lathe_manifest_classes(lathe_device* device, const lathe_manifest* manifest,
                                              lathe_text_fn text, void* user);

/* One class that a warm-up is done with. */
typedef struct lathe_warmup_progress {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t done, total;
  double seconds;      /* since the warm-up began */
  const char* name;    /* the manifest entry's; "" where it has none */
  const char* problem; /* "matmul bf16 a=n b=t m=32 n=4096 k=4096 batch=1 on cpu": M is the bucket's end */
  lathe_status status; /* of this class */
  uint32_t reserved;
  const char* error; /* "" where it is ready */
} lathe_warmup_progress;
/* Called on the warm-up's threads, one call at a time; pointers are valid during the call. Not 0: end the warm-up. It may
 * call anything but what closes the device, and must not wait for another thread's warm-up. */
typedef int32_t (*lathe_progress_fn)(void* user, const lathe_warmup_progress* progress);

typedef struct lathe_warmup_options {
  size_t struct_size;
  const lathe_chain* next;
  int32_t parallelism;      /* threads, the caller's included, at most 1024; 0: the context's workers */
  uint32_t stop_on_failure; /* 1: begin no class after one that failed; 0: go on */
  uint64_t deadline_nanoseconds;  /* from the call on, after which no class is begun; 0: none */
  const volatile int32_t* cancel; /* once it is not 0 no class is begun: for signal handlers and other threads */
  lathe_progress_fn progress;
  void* progress_user;
  /* BLOCK (or DEFAULT): compile what is nowhere. ERROR: load what the cache and the bundles have, compile nothing; what
   * they have not fails with MISS. */
  lathe_miss_policy miss_policy;
  uint32_t reserved;
} lathe_warmup_options;
#define LATHE_WARMUP_OPTIONS_INIT \
  { sizeof(lathe_warmup_options), NULL, 0, 0, 0, NULL, NULL, NULL, LATHE_MISS_DEFAULT, 0 }

/* classes = compiled + loaded + present + failed + skipped */
typedef struct lathe_warmup_report {
  size_t struct_size;
  const lathe_chain* next;
  uint64_t classes;  /* of the manifest on this device */
  uint64_t compiled; /* now */
  uint64_t loaded;   /* from memory, the cache directory or a bundle; on a described device: found there */
  uint64_t present;  /* in the device's table before */
  uint64_t failed;   /* the progress callback is told the reasons, the return value is the first's */
  uint64_t skipped;  /* not begun: deadline, cancellation, or stop_on_failure */
  double milliseconds;
} lathe_warmup_report;
#define LATHE_WARMUP_REPORT_INIT \
  { sizeof(lathe_warmup_report), NULL, 0, 0, 0, 0, 0, 0, 0.0 }

/* Prepares every class of the manifest, in its order, in parallel: afterwards no request of them misses, whatever the
 * policy. On a described device it fills the cache only. What is prepared stays, however the call ends: the first
 * failure's status; else CANCELLED; else TIMEOUT; what is under way then is ended first, so it may return later than the
 * deadline by one compilation. options and report may be NULL; the report is filled in every case but INVALID_ARGUMENT. */
LATHE_API lathe_status lathe_warmup(lathe_device* device, const lathe_manifest* manifest,
                                    const lathe_warmup_options* options, lathe_warmup_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_LATHE_H */
