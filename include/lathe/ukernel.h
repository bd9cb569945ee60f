/* Ukernels of your own: LLVM bitcode of a function that Lathe's kernels call and inline, one more candidate of the oracle
 * beside the generated kernels. On the CPU, of matmul and argmax; what is called is in kernels/README.md. */
#ifndef LATHE_UKERNEL_H
#define LATHE_UKERNEL_H

#include <lathe/lathe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a ukernel and registers it in the context, in place of one of its name. `description` is YAML, its `size` without
 * an end; it and the bitcode are copied. The bitcode's digest is in the key of every kernel that has it. `store` 1: it is
 * kept for later contexts as well, in $LATHE_UKERNELS, else in "ukernels" of the cache directory, from where each context
 * takes what it finds when it is made; a file that is missing or has changed then is a rejected candidate with that reason.
 * Classes that the context has met keep the kernels they have. INVALID_ARGUMENT: the description, with its line, or
 * the bitcode, which is read in a process of its own (lathe_context_options.compiler_program): damaged bitcode harms
 * no other. NOT_AVAILABLE: there is no compiler, or no directory that can be written. Thread-safe. */
LATHE_API lathe_status lathe_ukernel_add(lathe_context* context, const char* description, size_t size,
                                         const uint8_t* bitcode, size_t bitcode_size, int32_t store);
/* JSON: {"directory", "ukernels":[{"name", "op", "dtype", "target", "function", "digest", "defect", ...}...]}; a "defect"
 * that is not "" says why it is never taken. */
LATHE_API lathe_status lathe_ukernel_list(lathe_context* context, lathe_text_fn text, void* user);
/* From the context and from the directory. INVALID_ARGUMENT: there is none of that name. */
LATHE_API lathe_status lathe_ukernel_remove(lathe_context* context, const char* name);

#ifdef __cplusplus
}
#endif

#endif
