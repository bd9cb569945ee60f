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

// Runs `body` (which may throw the JSON library's exceptions on a missing or mistyped field) and turns an
// exception into kInvalidArgument naming `what`.
template <typename F>
auto read_json(absl::string_view what, F&& body) -> absl::StatusOr<decltype(body())> {
  try {
    return body();
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(std::string(what) + ": " + e.what());
  }
}

// Strict field readers, for use inside read_json: they throw on a missing field, on another JSON type (a
// float or a bool is no integer) and on a value outside [lo, hi].
int64_t int_field(const Json& j, const char* name, int64_t lo, int64_t hi);
double number_field(const Json& j, const char* name);
std::string text_field(const Json& j, const char* name);
// Throws unless `j` is an object with exactly `count` fields: with `count` fields read, none is left unread.
void expect_fields(const Json& j, size_t count);

// Canonical text: keys sorted, no spaces. Invalid UTF-8 is replaced, never thrown about.
std::string canonical_text(const Json& j);

}  // namespace lathe
