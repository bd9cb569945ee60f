#include "cli/csv.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace lathe::cli {

std::string csv_record(const std::vector<std::string>& fields) {
  return absl::StrJoin(fields, ",", [](std::string* record, const std::string& field) {
    if (field.find_first_of(",\"\r\n") == std::string::npos)
      absl::StrAppend(record, field);
    else
      absl::StrAppend(record, "\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
  });
}

}  // namespace lathe::cli
