// PTX to a cubin on a machine without a GPU: by ptxas, else by libnvJitLink, else not at all.
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
  std::string cubin;      // empty: the PTX stays
  AssemblerLog log;
};

// `arch` is the target's ("sm_90a"). An assembler that is too old for it or for the PTX's version is passed
// over, and a message says so. kAborted, naming the stage, the assembler and its words, where one refuses the
// PTX, does not end in time or gives no cubin. Thread-safe; 50 ms to 1 s.
absl::StatusOr<AssembledPtx> assemble_ptx(const std::string& ptx, absl::string_view arch,
                                          const AssemblerSearch& search);

// For the artifact's metadata: {"assembler", "messages":[...], "kernels":{symbol:{"registers",
// "shared_bytes", "stack_bytes", "spill_bytes"}}}.
Json to_json(const AssembledPtx& a);

}  // namespace lathe
