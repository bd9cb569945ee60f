/* The interface between liblathe and liblathe-compiler: bytes in, bytes out, plain C. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_COMPILER_ABI_VERSION 3

/* The kind of data in one call of the sink. */
enum lathe_compiler_output {
  LATHE_COMPILER_ARTIFACT = 1, /* a serialised artifact */
  LATHE_COMPILER_ERROR = 2,    /* a message with the stage and the cause */
  LATHE_COMPILER_DUMP = 3,     /* IR; `name` is the stage's file name */
  LATHE_COMPILER_JSON = 4      /* the JSON answer of the request, see lathe_compiler_compile_fn */
};
#define LATHE_COMPILER_OUT_OF_MEMORY 2 /* a return value of lathe_compiler_compile */
typedef void (*lathe_compiler_sink)(void* user, int output, const char* name, const uint8_t* data,
                                    size_t size);

/* Exported by liblathe-compiler.so. */
typedef uint32_t (*lathe_compiler_abi_version_fn)(void);   /* lathe_compiler_abi_version */
typedef const char* (*lathe_compiler_codegen_id_fn)(void); /* lathe_compiler_codegen_id */
/* `request` is a JSON object of one of four forms.
 *
 * Compile a kernel; the result is one LATHE_COMPILER_ARTIFACT:
 *   {"class":{}, "config":{}, "target":{}, "dump":bool, "pipeline":{}, "assemble":{}, "bitcode", "program"}
 *   "pipeline"  optional: the user's pipeline (compiler/pipeline.h) instead of the built-in one
 *   "assemble"  optional: where to find an assembler (core/assembler_search.h). Without it the artifact holds
 *               PTX, which the driver assembles. The artifact's metadata names the assembler.
 *   "bitcode"   the user ukernel that the config names, in base64
 *   "program"   the program of an elementwise op (core/elementwise.h)
 *
 * Check a user's ukernel; the result is its description (core/user_ukernel.h):
 *   {"ukernel": {"description": "YAML", "bitcode": "base64"}}
 *
 * Read a user's pipeline:
 *   {"read_pipeline": {"path", "parameters": path or ""}}
 *   The result is {"for": "matmul.cpu", "pipeline": {}, "unused": {}}. "pipeline" goes into compile requests
 *   for that op and backend. "unused" lists the parameters that the pipeline does not use, each with the
 *   message to show if no other pipeline uses it.
 *
 * Read a payload in MLIR; the result is described in compiler/inspect.h:
 *   {"inspect": {"name", "text"}}
 *
 * The results of the last three are one LATHE_COMPILER_JSON. Returns 0 after exactly one
 * LATHE_COMPILER_ARTIFACT or LATHE_COMPILER_JSON; LATHE_COMPILER_OUT_OF_MEMORY if the host has too little
 * memory; any other value after exactly one LATHE_COMPILER_ERROR. Thread-safe. Never throws, never exits. */
typedef int (*lathe_compiler_compile_fn)(const uint8_t* request, size_t request_size,
                                         lathe_compiler_sink sink, void* user); /* lathe_compiler_compile */

#ifdef __cplusplus
}
#endif
