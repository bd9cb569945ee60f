// Writes CSV (RFC 4180, but with Unix line ends). The benchmarks use it too.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

// One row without its line end. A field that contains a comma, a quote or a line end is quoted.
std::string csv_row(const std::vector<std::string>& fields);

}  // namespace lathe::cli
