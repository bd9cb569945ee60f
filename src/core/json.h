// The one place that includes the JSON library. Objects sort their keys, so dump() is canonical.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe {

using Json = nlohmann::json;

// Parses without throwing; `what` names the text in the error.
absl::StatusOr<Json> parse_json(absl::string_view text, absl::string_view what);

// Runs `body` (which may throw the JSON library's exceptions on a missing or mistyped field) and turns an exception
// into kInvalidArgument naming `what`.
template <typename F>
auto read_json(absl::string_view what, F&& body) -> absl::StatusOr<decltype(body())> {
  try {
    return body();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(std::string(what) + ": " + e.what());
  }
}

}  // namespace lathe
