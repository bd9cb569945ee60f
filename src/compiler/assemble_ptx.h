// Assembles PTX to a cubin without a GPU: with ptxas, or otherwise with libnvJitLink.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/assembler_log.h"
#include "core/assembler_search.h"
#include "core/json.h"

namespace lathe {

struct AssembledPtx {
  std::string assembler;  // "ptxas 13.0.88", "nvJitLink 13.0", kNoAssembler, kAssembledByLoader
  std::string cubin;      // empty if no assembler was found; the artifact then keeps the PTX
  AssemblerLog log;
};

// `arch` is that of the target, such as "sm_90a". An assembler that is too old for `arch` or for the PTX version
// is skipped with a message in the log. kAborted if an assembler refuses the PTX, exceeds the timeout or
// writes no cubin; the error names the stage and the assembler and quotes its output. Thread-safe. Takes 50 ms
// to 1 s.
absl::StatusOr<AssembledPtx> assemble_ptx(const std::string& ptx, absl::string_view arch,
                                          const AssemblerSearch& search);

// The part of the artifact's metadata about the assembler: {"assembler", "messages":[...],
// "kernels":{symbol:{"registers", "shared_bytes", "stack_bytes", "spill_bytes"}}}.
Json to_json(const AssembledPtx& a);

}  // namespace lathe
