// A CSV file that outlives a killed process: every row is on its way to the disk before the next is measured.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace lathe::bench {

class CsvFile {
 public:
  // `directory`/`file`, emptied first unless `appends`; an empty file gets `columns` as its header. Nothing
  // is written when the directory is "".
  CsvFile(const std::string& directory, const std::string& file, const std::vector<std::string>& columns,
          bool appends);
  void add(const std::vector<std::string>& row);
  // False: a row could not be written, which is reported.
  [[nodiscard]] bool is_written() const { return is_written_; }

 private:
  std::string path_;
  std::ofstream stream_;
  bool is_written_ = true;
};

}  // namespace lathe::bench
