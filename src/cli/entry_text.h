// Describes entries of caches and bundles in words, from their keys and metadata.
#pragma once

#include <cstdint>
#include <string>

#include "cli/session.h"

namespace lathe::cli {

// Describes a tuning or plan record: "tuned  cpu x86-64  matmul ...  dot tile ..., 1.23x the oracle's choice".
std::string record_line(const Json& record);
// "cpu x86-64", "cuda sm_90a"
std::string target_of(const Json& key);
// "matmul f32 nt m 17..32 n 4096 k 4096", "argmax f32 row 1025..16384"
std::string class_of(const Json& key);
// "matmul"
std::string op_of(const Json& key);
// The compile time of the entry; 0 if it is not recorded.
double compile_milliseconds(const Json& entry);
// The program that assembled the entry's PTX, or a note that the driver will: " (ptxas 13.0.88)". "" without PTX.
std::string assembler_of(const Json& entry);
// "45 s", "12 min", "3 h", "8 days"
std::string age_text(int64_t seconds);
// The member `name` of the entry if it is an object, else an empty object: entries of other versions may lack it.
Json object_of(const Json& entry, const char* name);

}  // namespace lathe::cli
