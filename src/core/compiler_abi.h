/* The boundary between liblathe and liblathe-compiler: bytes in, bytes out, plain C. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LATHE_COMPILER_ABI_VERSION 3

/* What a sink call carries. */
enum lathe_compiler_output {
  LATHE_COMPILER_ARTIFACT = 1, /* serialized artifact */
  LATHE_COMPILER_ERROR = 2,    /* message: the stage and the cause */
  LATHE_COMPILER_DUMP = 3,     /* `name` is the stage's file name */
  LATHE_COMPILER_PROGRAM = 4   /* JSON, as compiler/inspect.h says */
};
#define LATHE_COMPILER_OUT_OF_MEMORY 2 /* what compiling returns then, beside 0 and others */
typedef void (*lathe_compiler_sink)(void* user, int output, const char* name, const uint8_t* data,
                                    size_t size);

/* Exported by liblathe-compiler.so. */
typedef uint32_t (*lathe_compiler_abi_version_fn)(void);   /* lathe_compiler_abi_version */
typedef const char* (*lathe_compiler_codegen_id_fn)(void); /* lathe_compiler_codegen_id */
/* `request` is JSON {"class":{}, "config":{}, "target":{}, "dump":bool, "pipeline":{}, "assemble":{},
 * "bitcode", "program"}. "pipeline" (compiler/pipeline.h) is a user's; without it the built-in one is run.
 * "assemble" (core/assembler_search.h) says where an assembler may be that makes a cubin of PTX; without it
 * the artifact holds PTX, for the driver to assemble. The artifact's metadata names the assembler. "bitcode":
 * base64 of what a user's ukernel of the config is in. "program": an elementwise op's (core/elementwise.h). A
 * request {"ukernel": {"description": "YAML", "bitcode": "base64"}} checks one, and is answered by one
 * LATHE_COMPILER_PROGRAM (core/user_ukernel.h). A request
 * {"read_pipeline": {"path", "parameters": path or ""}} is answered by {"for": "matmul.cpu", "pipeline": {},
 * "unused": {}} as one LATHE_COMPILER_PROGRAM: what is to go into requests of that op and backend, and of the
 * parameters those that it does not use, each with what to say where no other pipeline does. A request
 * {"inspect":
 * {"name", "text"}} is of a payload, and answered by one LATHE_COMPILER_PROGRAM. Returns 0 after exactly one
 * LATHE_COMPILER_ARTIFACT or LATHE_COMPILER_PROGRAM, LATHE_COMPILER_OUT_OF_MEMORY where the host has too
 * little for it, or another value after exactly one LATHE_COMPILER_ERROR. Thread-safe; never throws, never
 * exits. */
typedef int (*lathe_compiler_compile_fn)(const uint8_t* request, size_t request_size,
                                         lathe_compiler_sink sink, void* user); /* lathe_compiler_compile */

#ifdef __cplusplus
}
#endif
