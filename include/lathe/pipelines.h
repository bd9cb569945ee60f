/* Lathe: a context whose kernels are compiled by pipelines of the caller's own. Not included by
 * lathe/lathe.h, which states the conventions. */
#ifndef LATHE_PIPELINES_H
#define LATHE_PIPELINES_H

#include "lathe/lathe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* lathe_pipelines, on lathe_context_options. */
#define LATHE_CHAIN_PIPELINES 16u

/* YAML files (src/compiler/pipeline.h documents them), each in place of the built-in pipeline of the op and
 * backend that its `for` names, one file each. They, the schedules that they name and the parameters are read
 * once, by a lathe-compiler-process that lathe_context_create starts for them. Relative paths start at the current
 * directory; a schedule's path starts at the directory of its pipeline's file. A defect is INVALID_ARGUMENT with file
 * and line, a text that ends the process COMPILE_FAILED. What was read is part of the key of every kernel that it compiles. */
typedef struct lathe_pipelines {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_PIPELINES */
  uint32_t reserved;
  const char* const* paths;
  size_t count;
  /* A JSON file whose object "parameters" the pipelines' params.NAME are looked up in; NULL: none. */
  const char* parameters;
} lathe_pipelines;
#define LATHE_PIPELINES_INIT \
  { sizeof(lathe_pipelines), NULL, LATHE_CHAIN_PIPELINES, 0, NULL, 0, NULL }

#ifdef __cplusplus
}
#endif
#endif
