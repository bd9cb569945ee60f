#include "tests/gpu/emulator/ptx/lexer.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lathe::ptx {
namespace {

bool in_word(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.'; }

// The end of the word that starts at `at`. "::" is a part of a word ("L1::no_allocate"); a single ':' ends a label.
size_t word_end(absl::string_view text, size_t at) {
  const bool number = absl::ascii_isdigit(text[at]);
  size_t end = at + 1;
  while (end < text.size()) {
    if (in_word(text[end])) {
      ++end;
    } else if (text.substr(end, 2) == "::") {
      end += 2;
    } else if (number && (text[end] == '-' || text[end] == '+') &&
               (text[end - 1] == 'e' || text[end - 1] == 'E') && text.substr(at, 2) != "0x" &&
               text.substr(at, 2) != "0f" && text.substr(at, 2) != "0d") {
      ++end;
    } else {
      break;
    }
  }
  return end;
}

}  // namespace

absl::StatusOr<std::vector<Token>> tokenize(absl::string_view text) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '\0') break;  // callers may pass NUL-terminated text
    size_t end = at + 1;
    if (c == '\n') {
      ++line;
    } else if (absl::ascii_isspace(c)) {
    } else if (text.substr(at, 2) == "//") {
      end = std::min(text.find('\n', at), text.size());
    } else if (text.substr(at, 2) == "/*") {
      end = text.find("*/", at);
      if (end == absl::string_view::npos)
        return absl::InvalidArgumentError(absl::StrCat("line ", line, ": comment is not closed"));
      end += 2;
      for (char inside : text.substr(at, end - at)) line += inside == '\n';
    } else if (c == '"') {
      end = text.find('"', at + 1);
      if (end == absl::string_view::npos)
        return absl::InvalidArgumentError(absl::StrCat("line ", line, ": string is not closed"));
      ++end;
      tokens.push_back({text.substr(at, end - at), line, false});
    } else if (in_word(c)) {
      end = word_end(text, at);
      tokens.push_back({text.substr(at, end - at), line, true});
    } else if (absl::ascii_isprint(c)) {
      tokens.push_back({text.substr(at, 1), line, false});
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", line, ": unexpected character code ", static_cast<int>(c)));
    }
    at = end;
  }
  tokens.push_back({absl::string_view(), line, false});
  return tokens;
}

}  // namespace lathe::ptx
