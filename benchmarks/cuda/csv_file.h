// A CSV file that keeps its rows if the process is killed: each row is flushed before the next is measured.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace lathe::bench {

class CsvFile {
 public:
  // Opens `directory`/`file` and truncates it unless `appends`. An empty file gets `columns` as its header.
  // Writes nothing if the directory is "".
  CsvFile(const std::string& directory, const std::string& file, const std::vector<std::string>& columns,
          bool appends);
  void add(const std::vector<std::string>& row);
  // False if a row could not be written; a message was printed then.
  [[nodiscard]] bool is_written() const { return is_written_; }

 private:
  std::string path_;
  std::ofstream stream_;
  bool is_written_ = true;
};

}  // namespace lathe::bench
