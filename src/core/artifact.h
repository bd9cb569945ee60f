// What the compiler makes and the cache keeps: code and how to launch it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/recipe.h"

namespace lathe {

// kNone: every step is host_extern.
enum class CodeFormat : int32_t { kElfObject = 1, kPtx = 2, kCubin = 3, kHsaco = 4, kNone = 5, kSpirv = 6 };
absl::string_view name_of(CodeFormat f);

struct Artifact {
  CodeFormat format = CodeFormat::kElfObject;
  Recipe recipe;
  std::string code;
  std::string metadata;  // JSON: compile milliseconds, assembler identity; informative only, not in the key
};

// Bytes: "LATHEART", u32 version, u32 format, u64 recipe size, u64 metadata size, u64 code size, recipe JSON,
// metadata JSON, code. Little-endian. parse checks every length against the input.
std::string serialize(const Artifact& a);
absl::StatusOr<Artifact> parse_artifact(absl::string_view bytes);

}  // namespace lathe
