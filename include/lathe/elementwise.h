/* Lathe: elementwise ops. The caller writes a small program that says what each element of the result is. lathe/lathe.h
 * includes this file and states the rules that hold everywhere. */
#ifndef LATHE_ELEMENTWISE_H
#define LATHE_ELEMENTWISE_H

#include "lathe/lathe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A parsed program: inputs, operations of MLIR's arith and math dialects, and the value that is the result.
 * src/core/elementwise.h describes the text; lathe_payload_inspect writes it for code in linalg. */
typedef struct lathe_program lathe_program;

/* Parses the text: JSON of at most 64 KB, 512 nodes and 5 inputs. Any input is safe. Takes microseconds per node. Texts
 * that differ only in spelling give the same program and the same class. INVALID_ARGUMENT names the line and column if
 * the text is not JSON, else the node or input that is wrong and why. UNSUPPORTED: there are five inputs and none has
 * dims "n". */
LATHE_API lathe_status lathe_program_create(const char* text, size_t size, lathe_program** program);
/* No call that uses the program may be in progress. Plans and manifests made with it remain valid. NULL is allowed. */
LATHE_API void lathe_program_destroy(lathe_program* program);

#define LATHE_ELEMENTWISE_INPUTS 5

/* D[b, m, n] = program(inputs at (b, m, n); b, m, n), for each element independently. Each input of the program is read
 * as its dims say:
 *   dims       layout         elements
 *   mn         ROW_MAJOR      M rows of N elements, leading_dimension apart (0: N)
 *   nm         COLUMN_MAJOR   N columns of M elements, leading_dimension apart (0: M)
 *   n          ROW_MAJOR      N contiguous elements; leading_dimension must be 0
 *   m          ROW_MAJOR      M elements, leading_dimension apart (0: 1)
 *   (none)     ROW_MAJOR      one element; leading_dimension must be 0
 * If the dims begin with b, the matrices of the batch are batch_stride elements apart (0: all use the same one);
 * otherwise batch_stride must be 0. D is ROW_MAJOR, M by N. The dtypes must be the program's: f32, f16, bf16, i8, i32
 * or i64. Every f16 and bf16 operation is rounded, as MLIR defines it (integers convert to bf16 through f32). exp, erf
 * and tanh are exact to a few units in the last place of f32. Integers wrap. M, N and batch are in [0, 2^31 - 1]; if
 * one is 0, nothing happens. One kernel serves all sizes.
 *
 * D may be exactly an input with dims mn or bmn: the same data, dtype, leading dimension and batch stride.
 * INVALID_ARGUMENT: any other D that overlaps an input, a D whose rows overlap, or a dtype that is not the program's.
 * Under LATHE_MISS_FALLBACK a miss blocks, because there is no generic kernel for a program. A lathe_tuning with
 * split_k is refused. */
typedef struct lathe_elementwise_desc {
  size_t struct_size;
  const lathe_chain* next;
  const lathe_program* program; /* must live until the call returns */
  int64_t m, n;
  int64_t batch;
  lathe_operand inputs[LATHE_ELEMENTWISE_INPUTS]; /* in the program's order; the rest are not read */
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

/* Runs the op, with the stream rules, threading and errors of lathe_matmul. */
LATHE_API lathe_status lathe_elementwise(lathe_device* device, lathe_stream stream, const lathe_elementwise_desc* desc);
/* See lathe_plan_matmul and lathe_plan_run_matmul. */
LATHE_API lathe_status lathe_plan_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                              lathe_plan** plan);
LATHE_API lathe_status lathe_plan_run_elementwise(lathe_plan* plan, lathe_stream stream,
                                                  const lathe_elementwise_desc* desc);
/* See lathe_explain_matmul. */
LATHE_API lathe_status lathe_explain_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                                 lathe_text_fn text, void* user);
/* See lathe_plan_run_matmul_slice. */
LATHE_API lathe_status lathe_plan_run_elementwise_slice(lathe_plan* plan, const lathe_elementwise_desc* desc,
                                                        int32_t phase, int32_t worker, int32_t workers);
/* Adds the program's classes to a manifest, for every alignment. Sizes and data pointers are not read. The manifest's
 * text contains the program. */
LATHE_API lathe_status lathe_manifest_add_elementwise(struct lathe_manifest* manifest, const char* name,
                                                      const lathe_elementwise_desc* desc);
/* See lathe_tune_matmul. */
struct lathe_tune_options;
struct lathe_tune_report;
LATHE_API lathe_status lathe_tune_elementwise(lathe_device* device, const lathe_elementwise_desc* desc,
                                              const struct lathe_tune_options* options,
                                              struct lathe_tune_report* report);

#ifdef __cplusplus
}
#endif
#endif /* LATHE_ELEMENTWISE_H */
