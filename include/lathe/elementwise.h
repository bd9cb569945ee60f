/* Lathe: elementwise ops, whose meaning is a program that the caller writes. Included by lathe/lathe.h, which states the
 * conventions. */
#ifndef LATHE_ELEMENTWISE_H
#define LATHE_ELEMENTWISE_H

#include "lathe/lathe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an elementwise op computes of each element, read once: inputs, operations of MLIR's arith and math dialects, and
 * the value that is the result (src/core/elementwise.h shows the text; lathe_payload_inspect writes it of linalg). */
typedef struct lathe_program lathe_program;

/* Reads the text, which is JSON of at most 64 KB, 512 nodes and 5 inputs; any bytes are safe. Costs microseconds a node.
 * INVALID_ARGUMENT names the line and column of what is no JSON, or the node or input that is wrong and why;
 * UNSUPPORTED: five inputs of which none lies along n alone. The same program in another spelling is the same program. */
LATHE_API lathe_status lathe_program_create(const char* text, size_t size, lathe_program** program);
/* NULL is legal. No call that was given the program may be under way; plans and manifests made with it stay as they are. */
LATHE_API void lathe_program_destroy(lathe_program* program);

#define LATHE_ELEMENTWISE_INPUTS 5

/* D[b, m, n] = program(inputs at (b, m, n), and b, m, n themselves), every element on its own. Of the inputs those that
 * the program has are read, each as its dims say:
 *   dims       layout         elements
 *   mn         ROW_MAJOR      M rows of N, leading_dimension apart (0: N)
 *   nm         COLUMN_MAJOR   N columns of M, leading_dimension apart (0: M)
 *   n          ROW_MAJOR      N, one after the other; leading_dimension must be 0
 *   m          ROW_MAJOR      M, leading_dimension apart (0: 1)
 *   (none)     ROW_MAJOR      one; leading_dimension must be 0
 * With b in the dims the next of the batch is batch_stride elements on (0: the same); without, batch_stride must be 0.
 * dtypes are the program's (INVALID_ARGUMENT otherwise): f32, f16, bf16, i8, i32, i64. D: ROW_MAJOR, M by N.
 * f16 and bf16 operations are rounded one by one, as MLIR says (integers become bf16 by way of f32); exp, erf and tanh are
 * good to a few units of f32's last place; integers wrap. M, N, batch in [0, 2^31 - 1]; any 0 does nothing. One kernel
 * serves all of them.
 *
 * D may be exactly an input of dims mn or bmn (same data, dtype, leading dimension, batch stride). Any other D that meets
 * an input, and a D whose rows overlap, is INVALID_ARGUMENT, as of lathe_matmul. Under LATHE_MISS_FALLBACK a miss blocks:
 * no generic kernel knows the program. Splits are refused (lathe_tuning). */
typedef struct lathe_elementwise_desc {
  size_t struct_size;
  const lathe_chain* next;
  const lathe_program* program; /* during the call */
  int64_t m, n;
  int64_t batch;
  lathe_operand inputs[LATHE_ELEMENTWISE_INPUTS]; /* those beyond the program's are not read */
  lathe_operand d;
  lathe_miss_policy miss_policy;
  lathe_dependent_launch dependent_launch;
} lathe_elementwise_desc;
#define LATHE_ELEMENTWISE_DESC_INIT                                                                            \
  {                                                                                                            \
    sizeof(lathe_elementwise_desc), NULL, NULL, 0, 0, 1,                                                       \
        {LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT, LATHE_OPERAND_INIT},  \
        LATHE_OPERAND_INIT, LATHE_MISS_DEFAULT, LATHE_DEPENDENT_LAUNCH_OFF                                     \
  }

/* As lathe_matmul. */
LATHE_API lathe_status lathe_elementwise(lathe_device* device, lathe_stream stream, const lathe_elementwise_desc* desc);
/* As lathe_plan_matmul and lathe_plan_run_matmul. */
LATHE_API lathe_status lathe_plan_elementwise(lathe_device* device, const lathe_elementwise_desc* desc, lathe_plan** plan);
LATHE_API lathe_status lathe_plan_run_elementwise(lathe_plan* plan, lathe_stream stream,
                                                  const lathe_elementwise_desc* desc);
/* As lathe_explain_matmul. */
LATHE_API lathe_status lathe_explain_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                                 lathe_text_fn text, void* user);
/* As lathe_plan_run_matmul_slice. */
LATHE_API lathe_status lathe_plan_run_elementwise_slice(lathe_plan* plan, const lathe_elementwise_desc* desc,
                                                        int32_t phase, int32_t worker, int32_t workers);
/* Adds the program's classes, every alignment included; sizes and data pointers are not read. The manifest's text holds
 * the program. */
LATHE_API lathe_status lathe_manifest_add_elementwise(struct lathe_manifest* manifest, const char* name,
                                                      const lathe_elementwise_desc* desc);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_ELEMENTWISE_H */
