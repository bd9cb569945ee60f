#include "cuda/csv_file.h"

#include <cstdio>

#include "cli/csv.h"

namespace lathe::bench {

CsvFile::CsvFile(const std::string& directory, const std::string& file,
                 const std::vector<std::string>& columns, bool appends) {
  if (directory.empty()) return;
  path_ = directory + "/" + file;
  stream_.open(path_, appends ? std::ios::app | std::ios::ate : std::ios::trunc);
  if (!appends || stream_.tellp() == std::ofstream::pos_type(0)) add(columns);
}

void CsvFile::add(const std::vector<std::string>& row) {
  if (path_.empty()) return;
  stream_ << cli::csv_row(row) << std::endl;
  if (stream_) return;
  std::fprintf(stderr, "cannot write %s\n", path_.c_str());
  path_.clear();
  is_written_ = false;
}

}  // namespace lathe::bench
