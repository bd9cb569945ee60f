#include "cli/csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace lathe::cli {

std::string csv_row(const std::vector<std::string>& fields) {
  return absl::StrJoin(fields, ",", [](std::string* row, const std::string& field) {
    if (field.find_first_of(",\"\r\n") == std::string::npos)
      absl::StrAppend(row, field);
    else
      absl::StrAppend(row, "\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
  });
}

}  // namespace lathe::cli
