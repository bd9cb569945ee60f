// Entries of caches and bundles as text: what their keys and metadata say.
#pragma once

#include <cstdint>
#include <string>

#include "cli/session.h"

namespace lathe::cli {

// A record of tuning or of a plan: "tuned  cpu x86-64  matmul ...  dot tile ..., 1.23x the oracle's choice".
std::string record_line(const Json& record);
// "cpu x86-64", "cuda sm_90a"
std::string target_of(const Json& key);
// "matmul f32 nt m 17..32 n 4096 k 4096", "argmax f32 row 1025..16384"
std::string class_of(const Json& key);
// "matmul"
std::string op_of(const Json& key);
// What the compiler took for the entry; 0 where it did not say.
double compile_milliseconds(const Json& entry);
// What made the entry's machine code of PTX, or that a driver is to: " (ptxas 13.0.88)"; "" where it was no
// PTX.
std::string assembler_of(const Json& entry);
// "45 s", "12 min", "3 h", "8 days"
std::string age_text(int64_t seconds);
// The entry's object member `name`, or an empty object: entries may come from other versions.
Json object_of(const Json& entry, const char* name);

}  // namespace lathe::cli
