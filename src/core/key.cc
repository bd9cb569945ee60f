#include "core/key.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "codegen_id.h"
#include "core/json_object.h"

namespace lathe {

Key key_of(const ProblemClass& c, const CompileConfig& config, const Target& target,
           absl::string_view codegen_id) {
  return key_from_text(canonical_text(json_object("class", to_json(c), "config", to_json(config), "target",
                                                  to_json(target), "codegen", std::string(codegen_id))));
}

Key key_from_text(std::string text) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(text.data(), text.size()));
  Key key;
  key.text = std::move(text);
  key.fingerprint = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)));
  return key;
}

absl::string_view codegen_id() { return LATHE_CODEGEN_ID; }

}  // namespace lathe
