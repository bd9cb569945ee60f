// Passes a JSON value as text to a caller's callback.
#pragma once

#include <string>

#include "core/json.h"
#include "lathe/lathe.h"

namespace lathe {

inline void pass_text(lathe_text_fn text, void* user, const char* name, const Json& json) {
  const std::string out = canonical_text(json);
  text(user, name, out.data(), out.size());
}

}  // namespace lathe
