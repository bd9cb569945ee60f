/* Lathe: your own ukernels. A ukernel is a function in LLVM bitcode that Lathe's kernels call and inline. It becomes
 * one more candidate beside the generated kernels: for matmul and argmax on the CPU, for argmax on GPUs.
 * kernels/ukernels.md in the source tree has the function signatures, examples/ukernels two examples. lathe/lathe.h
 * does not include this file, but states the rules that hold everywhere. */
#ifndef LATHE_UKERNEL_H
#define LATHE_UKERNEL_H

#include <lathe/lathe.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checks a ukernel and registers it in the context, replacing one with the same name. `description` is YAML of `size`
 * bytes, without a terminating zero. The description and the bitcode are copied. The bitcode's digest is part of the
 * key of every kernel that uses it. Classes that the context has already met keep their kernels. store 1: also keep it
 * for later contexts, in the directory $LATHE_UKERNELS, else in "ukernels" in the cache directory. A context reads that
 * directory when it is made; if a file is then missing or changed, the ukernel is a rejected candidate, and the reason
 * says so. store 0: this context only. The bitcode is read by a compiler process
 * (lathe_context_options.compiler_program), so damaged bitcode cannot harm this one. Thread-safe. INVALID_ARGUMENT: a
 * defect in the description (with its line) or in the bitcode. NOT_AVAILABLE: there is no compiler process, or no
 * directory that can be written. */
LATHE_API lathe_status lathe_ukernel_add(lathe_context* context, const char* description, size_t size,
                                         const uint8_t* bitcode, size_t bitcode_size, int32_t store);
/* Lists the context's ukernels as one JSON object:
 *   {"directory", "ukernels":[{"name", "op", "dtype", "target", "function", "digest", "defect", ...}...]}
 * A nonempty "defect" says why the ukernel is never used. */
LATHE_API lathe_status lathe_ukernel_list(lathe_context* context, lathe_text_fn text, void* user);
/* Removes a ukernel from the context and from the directory. INVALID_ARGUMENT: there is none with that name. */
LATHE_API lathe_status lathe_ukernel_remove(lathe_context* context, const char* name);

#ifdef __cplusplus
}
#endif

#endif
