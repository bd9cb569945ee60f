#include "cli/files.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace lathe::cli {

absl::StatusOr<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  bool is_read = in.is_open();
  try {
    text.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  } catch (const std::ios_base::failure&) {  // a directory
    is_read = false;
  }
  if (!is_read || in.bad()) return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "'"));
  return text;
}

absl::StatusOr<Json> read_json_file(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  if (!text.ok()) return text.status();
  try {
    constexpr int kMostDepth = 64;  // a limit, because values are copied by recursion
    return Json::parse(*text, [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth)
        throw std::invalid_argument(absl::StrCat("nested more than ", kMostDepth, " levels deep"));
      return true;
    });
  } catch (const std::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", e.what()));
  }
}

absl::Status write_file(const std::string& path, absl::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write '", path, "'"));
}

}  // namespace lathe::cli
