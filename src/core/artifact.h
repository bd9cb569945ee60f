// An artifact: the compiler's output, which the cache stores. It holds the code and the recipe that launches
// it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/recipe.h"

namespace lathe {

// kNone: no code, because every step of the recipe calls an external library (host_extern).
enum class CodeFormat : int32_t { kElfObject = 1, kPtx = 2, kCubin = 3, kHsaco = 4, kNone = 5, kSpirv = 6 };
absl::string_view name_of(CodeFormat f);

struct Artifact {
  CodeFormat format = CodeFormat::kElfObject;
  Recipe recipe;
  std::string code;
  std::string metadata;  // JSON: compile time in ms, assembler; for information only, not in the key
};

// The serialised form, little-endian: "LATHEART", u32 version, u32 format, u64 recipe size, u64 metadata
// size, u64 code size, recipe JSON, metadata JSON, code. parse_artifact accepts any bytes as input and checks
// every length against it.
std::string serialize(const Artifact& a);
absl::StatusOr<Artifact> parse_artifact(absl::string_view bytes);

}  // namespace lathe
