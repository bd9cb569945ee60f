#include "cli/request_flags.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace lathe::cli {

absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& pattern) {
  const size_t wanted = std::count(pattern.begin(), pattern.end(), 'x') + 1;
  const std::string example = wanted == 3 ? "123x456x51234" : "4x151936";
  std::vector<int64_t> sizes;
  for (absl::string_view part : absl::StrSplit(text, 'x')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("bad shape '", text, "': expected ", pattern,
                                                     ", such as ", example, "; '", part,
                                                     "' is not a whole number of 0 or more"));
    }
    sizes.push_back(size);
  }
  if (sizes.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat("bad shape '", text, "': expected ", pattern, ", such as ", example));
  }
  return sizes;
}

Flag b_dtype_flag() {
  static const std::string names = [] {
    std::string all = "f16|bf16";
    for (const reference::BlockFormat& f : reference::block_formats()) absl::StrAppend(&all, "|", f.name);
    return all;
  }();
  return {"b-dtype", names.c_str(),
          "dtype of B if A is f32: 16-bit weights or a block format, on the CPU (default: that of A)"};
}

}  // namespace lathe::cli
