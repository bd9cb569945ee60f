// The cache key: canonical JSON of the problem class, the compile config, the target and the codegen id.
// Every cache entry stores the complete key.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

struct Key {
  std::string text;         // canonical JSON, keys sorted, no spaces
  std::string fingerprint;  // XXH3-128 of the text, 32 hex digits; the name of the cache entry
  bool operator==(const Key& o) const { return text == o.text; }
};

Key key_of(const ProblemClass& c, const CompileConfig& config, const Target& target,
           absl::string_view codegen_id);
// The key with this text; computes the fingerprint.
Key key_from_text(std::string text);

// A hash, computed at build time, of the sources of the kernels, the compiler and the argument block, and of
// LLVM's version. liblathe refuses a compiler library with another codegen id.
absl::string_view codegen_id();

}  // namespace lathe
