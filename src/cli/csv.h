// Tables as CSV (RFC 4180, but for lines that end as Unix's do). The benchmarks write theirs by it too.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

// The record without the end of its line: a field with a comma, a quote or a line's end in it is quoted.
std::string csv_record(const std::vector<std::string>& fields);

}  // namespace lathe::cli
