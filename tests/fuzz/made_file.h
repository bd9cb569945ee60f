// Turns an input of a fuzzer into the file that it describes.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/artifact.h"

namespace lathe::fuzz {

struct MadeFile {
  std::string bytes;
  bool repair = false;  // the checksums must be corrected
};

// Byte 0 has flags. Bit 0: the rest of the input is the file; otherwise it is a list of edits of `whole`,
// each an offset (u16) and a value. Bit 1: repair the checksums. Bit 2: cut the file at the last offset.
inline MadeFile make_file(const uint8_t* data, size_t size, std::string whole) {
  if (size == 0) return {std::move(whole), false};
  const uint8_t flags = data[0];
  if ((flags & 1) != 0)
    return {std::string(reinterpret_cast<const char*>(data) + 1, size - 1), (flags & 2) != 0};
  size_t last = whole.size();
  for (size_t i = 1; i + 3 <= size; i += 3) {
    last = (data[i] | size_t{data[i + 1]} << 8) % whole.size();
    whole[last] = static_cast<char>(data[i + 2]);
  }
  if ((flags & 4) != 0) whole.resize(last);
  return {std::move(whole), (flags & 2) != 0};
}

// Writes the XXH3-128 of two pieces to `out`.
inline void put_digest(char* out, absl::string_view first, absl::string_view second = "") {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, first.data(), first.size());
  XXH3_128bits_update(&state, second.data(), second.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  memcpy(out, canonical.digest, sizeof(canonical.digest));
}

template <typename T>
T number_at(const std::string& bytes, size_t at) {
  T value;
  memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

inline Artifact sample_artifact(const std::string& code) {
  Artifact a;
  Step step;
  step.symbol = "kernel";
  step.grid = {product(1, {{Var::kM, 4}}), constant(1), constant(1)};
  a.recipe.steps = {step};
  a.code = code;
  a.metadata = "{}";
  return a;
}

}  // namespace lathe::fuzz
