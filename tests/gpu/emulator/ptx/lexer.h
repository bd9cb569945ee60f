// Splits PTX text into words and punctuation.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lathe::ptx {

struct Token {
  // A word is an identifier, a number, an opcode with its modifiers, or a directive: "ld.global.b32", "%r1",
  // "0x1F", ".reg", "$L__BB0_2". Every other token is one character of punctuation, or a string with its quotes.
  absl::string_view text;
  int line = 0;
  bool word = false;
};

// The last token is empty. The tokens point into `text`.
absl::StatusOr<std::vector<Token>> tokenize(absl::string_view text);

}  // namespace lathe::ptx
