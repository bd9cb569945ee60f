// The cache key: canonical JSON of problem class, compile config, target and codegen id. Stored whole in
// every entry.
#pragma once

#include <string>

#include "core/facts.h"
#include "core/plan.h"
#include "core/problem.h"

namespace lathe {

struct Key {
  std::string text;         // canonical JSON, keys sorted, no spaces
  std::string fingerprint;  // 32 hex digits of the text's 128-bit XXH3: names the cache entry
  bool operator==(const Key& o) const { return text == o.text; }
};

Key key_of(const ProblemClass& c, const CompileConfig& config, const Target& target,
           absl::string_view codegen_id);
// The key of an entry read back: recomputes the fingerprint.
Key key_from_text(std::string text);

// Hash of the kernels' sources, the compiler's, LLVM's version and the argument block; set at build time, the
// same in both libraries or they refuse each other.
absl::string_view codegen_id();

}  // namespace lathe
