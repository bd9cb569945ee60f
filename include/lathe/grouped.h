/* Lathe: grouped products, for models with a mixture of experts. lathe/lathe.h includes this file and states the rules
 * that hold everywhere. docs/grouped.md in the source tree explains how to use it. */
#include "lathe/lathe.h" /* before the guard: lathe.h includes this file, then headers that need this file's types */

#ifndef LATHE_GROUPED_H
#define LATHE_GROUPED_H

#ifdef __cplusplus
extern "C" {
#endif

/* How rows are assigned to groups. `routing` is an i32 array in device memory, and it may differ in every call. */
typedef enum lathe_grouping {
  /* routing[G + 1]: group g has the rows routing[g] to routing[g + 1] - 1 of A and D. The values do not decrease and
   * are in [0, M]. Rows before the first and after the last one are neither read nor written. */
  LATHE_GROUPING_OFFSETS = 0,
  /* routing[M]: the group of each row of A and D. A row with -1 is padding, which is neither read nor written. */
  LATHE_GROUPING_ROW_IDS = 1,
  /* routing[G]: the number of rows of each group, in [0, M]. A and D are batches of G matrices of M rows; rows from the
   * count on are neither read nor written. */
  LATHE_GROUPING_COUNTS = 2,
  /* routing[M * used]: for each of M tokens, the groups of its `used` slots. Slot s of token t multiplies the row
   * t * leading_dimension + s * batch_stride of A by B of its group. A batch_stride of 0 gives all slots of a token the
   * same row. D's rows are found in the same way, or the slots are summed (router_weights). A slot with -1 is not used:
   * its row of D is not written, and it adds nothing to a sum. */
  LATHE_GROUPING_INDEXED = 3
} lathe_grouping;

/* With a gate, B holds two weights for the same rows. The product's N columns are g and u, and D's N / 2 columns are
 * gate(g) * u. */
typedef enum lathe_gate {
  LATHE_GATE_NONE = 0,
  LATHE_GATE_SILU = 1,      /* silu(g) * u, as in Llama, Qwen, Mixtral and DeepSeek */
  LATHE_GATE_GELU = 2,      /* gelu(g) * u, with erf */
  LATHE_GATE_GELU_TANH = 3, /* gelu(g) * u, with tanh */
  LATHE_GATE_RELU = 4,      /* relu(g) * u */
  /* y * sigmoid(1.702 y) * (max(min(u, 7), -7) + 1) with y = min(g, 7), as in gpt-oss */
  LATHE_GATE_CLAMPED = 5
} lathe_gate;
typedef enum lathe_gate_layout {
  LATHE_GATE_HALVES = 0,     /* g is columns 0 to N / 2 - 1 of B, u the others. A packed B needs N / 2 % 16 == 0 */
  LATHE_GATE_INTERLEAVED = 1 /* g is the even columns, u the odd ones. B must be COLUMN_MAJOR and not packed */
} lathe_gate_layout;

/* D[row] = activation(alpha * A[row] B[g] + bias[g]) for each row that belongs to a group g, evaluated in f32 and
 * rounded once, when it is stored. With router_weights, D[t] is the sum of those rows over the slots of token t, each
 * times its weight, in f32 and in the order of the slots. With a gate, AB + bias are g and u, the epilogue's
 * activation must be NONE, B must not be i8, and u is kept in f32 until g is there.
 *
 * On the CPU the call reads the routing, runs one or two lathe_matmul kernels per group with the true number of rows,
 * and returns. Workers share the tiles of all groups. So the classes of a grouped product are those of
 * lathe_matmul with B's N and K. Rows that are not evenly spaced are read and written where they lie, by classes of
 * their own; only rows of A that must be decoded, and rows for generic kernels, are copied.
 *
 * On a GPU the call enqueues kernels that read the routing, so a captured graph replays with the routing that is there
 * when it is launched. A product has one class for each grouping and each bucket of the mean rows per group.
 * UNSUPPORTED: what lathe_matmul does not support there, and SPIR-V. lathe_manifest_add_grouped_matmul warms up both
 * kinds of classes.
 *
 * B[g] is a matrix of the batch b: K by N, any dtype and layout of lathe_matmul, packed layouts included (pack B with
 * `batch` set to `groups`). A and D are ROW_MAJOR. D's dtype is one that lathe_matmul has for A and B; with
 * router_weights or a gate it must be a float. Scales of an i8 A are one, or one per row of A; those of an i8 B are
 * one per group, or one per group and column ([G][N]). A zero point of B has as many values, that of A one. The
 * epilogue's bias has G * N elements ([G][N]); its beta must be 0 and its residual NULL.
 *
 * M, N, K, groups and used are in [0, 2^31 - 1], and so are M * used and, with COUNTS, M * groups. If one of M, N,
 * groups and `used` is 0, nothing happens. If K is 0, the rows of D are the epilogue of a zero product, and A and B may
 * be NULL. INVALID_ARGUMENT, with nothing written: a D that overlaps an input, rows of D that overlap each other, and,
 * on the CPU and with the context option `validate`, a routing value out of its range. Without `validate` a GPU skips
 * the rows of such a value (and OFFSETS that decrease), and writes nothing outside D; rows of OFFSETS that overlap get
 * the product of one of their groups. `validate` waits for the stream, and checks nothing while it is captured. Two
 * slots of a token may have the same group. Only a lathe_workspace may be chained, and it is not used. */
typedef struct lathe_grouped_matmul_desc {
  size_t struct_size;
  const lathe_chain* next;
  int64_t m, n, k; /* of OFFSETS and ROW_IDS: M rows in all. COUNTS: at most M per group. INDEXED: M tokens */
  int64_t groups;
  int64_t used; /* INDEXED: slots per token. Otherwise 1 */
  lathe_grouping grouping;
  lathe_gate gate;
  lathe_gate_layout gate_layout; /* HALVES without a gate */
  uint32_t reserved;             /* must be 0 */
  const int32_t* routing;
  int64_t routing_stride; /* INDEXED: elements from a token's first slot to the next token's; 0: `used` */
  const float* router_weights;    /* INDEXED: M by used, rows router_weights_stride apart; NULL: slots are not summed */
  int64_t router_weights_stride;  /* 0: `used` */
  lathe_operand a, b, d;
  lathe_epilogue epilogue;
  lathe_determinism determinism; /* of each row: see lathe_matmul */
  lathe_miss_policy miss_policy;
  lathe_math math;
  uint32_t reserved2; /* must be 0 */
} lathe_grouped_matmul_desc;
#define LATHE_GROUPED_MATMUL_DESC_INIT                                                                         \
  {                                                                                                            \
    sizeof(lathe_grouped_matmul_desc), NULL, 0, 0, 0, 0, 1, LATHE_GROUPING_OFFSETS, LATHE_GATE_NONE,           \
        LATHE_GATE_HALVES, 0, NULL, 0, NULL, 0, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT,    \
        LATHE_EPILOGUE_INIT, LATHE_DETERMINISM_FAST, LATHE_MISS_DEFAULT, LATHE_MATH_STRICT, 0                  \
  }

/* Runs a grouped product. On the CPU the stream must be NULL, and the call returns when the result is written; the
 * costs beyond the products are reading the routing and one lookup per group. On a GPU the call returns when the
 * kernels are enqueued: two per product, and one more to sum slots. They use memory that the device keeps for the
 * stream (docs/grouped.md); of several threads that use one stream, one enqueues at a time. */
LATHE_API lathe_status lathe_grouped_matmul(lathe_device* device, lathe_stream stream,
                                            const lathe_grouped_matmul_desc* desc);
/* Adds every class that groups of up to m_max rows need. As lathe_manifest_add_matmul: pointers are not read, but a
 * NULL bias and NULL router_weights mean "none". The routing and M are ignored. On a GPU the warm-up reserves the
 * memory that launches with M up to m_max need. */
LATHE_API lathe_status lathe_manifest_add_grouped_matmul(lathe_manifest* manifest, const char* name,
                                                         const lathe_grouped_matmul_desc* desc, int64_t m_max);
/* As lathe_plan_matmul, lathe_explain_matmul and lathe_tune_matmul, for the kernel that the product takes if its rows
 * are spread evenly over the groups: on a GPU the one kernel of all groups, on the CPU that of a group of
 * ceil(rows / groups) rows. Predicted times are of that kernel. With a gate it is the kernel of g. The routing is not
 * read. No lathe_plan_run_* takes a plan of a GPU's grouped kernel. UNSUPPORTED: tuning on a GPU. */
LATHE_API lathe_status lathe_plan_grouped_matmul(lathe_device* device, const lathe_grouped_matmul_desc* desc,
                                                 lathe_plan** plan);
LATHE_API lathe_status lathe_explain_grouped_matmul(lathe_device* device, const lathe_grouped_matmul_desc* desc,
                                                    lathe_text_fn text, void* user);
struct lathe_tune_options;
struct lathe_tune_report;
LATHE_API lathe_status lathe_tune_grouped_matmul(lathe_device* device, const lathe_grouped_matmul_desc* desc,
                                                 const struct lathe_tune_options* options,
                                                 struct lathe_tune_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_GROUPED_H */
