/* Lathe: compiling with your own pipelines. lathe/lathe.h does not include this file, but states the rules that hold
 * everywhere. examples/pipelines in the source tree has an example. */
#ifndef LATHE_PIPELINES_H
#define LATHE_PIPELINES_H

#include "lathe/lathe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Kind of a lathe_pipelines in the chain of lathe_context_options. */
#define LATHE_CHAIN_PIPELINES 16u

/* Pipelines as YAML files, whose format src/compiler/pipeline.h documents. Each replaces the built-in pipeline of the
 * op and backend that its `for` names; at most one file per op and backend. lathe_context_create reads them once,
 * together with their schedules and the parameters, in a compiler process that it starts for this. A relative path
 * starts at the current directory, a schedule's path at the directory of its pipeline file. The text that was read is
 * part of the key of every kernel that it compiles; the paths are not.
 * INVALID_ARGUMENT: a defect in a file; the message names file and line. COMPILE_FAILED: a text crashed the process. */
typedef struct lathe_pipelines {
  size_t struct_size;
  const lathe_chain* next;
  uint32_t kind; /* LATHE_CHAIN_PIPELINES */
  uint32_t reserved;
  const char* const* paths;
  size_t count;
  /* Path of a JSON file. Its object "parameters" gives the values of params.NAME in the pipelines. NULL: none. */
  const char* parameters;
} lathe_pipelines;
#define LATHE_PIPELINES_INIT \
  { sizeof(lathe_pipelines), NULL, LATHE_CHAIN_PIPELINES, 0, NULL, 0, NULL }

#ifdef __cplusplus
}
#endif
#endif
