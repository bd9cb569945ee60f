// A table, printed as Markdown and written as CSV.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace lathe::bench {

class Table {
 public:
  Table(std::string title, std::vector<std::string> columns)
      : title_(std::move(title)), columns_(std::move(columns)) {}
  // One value a column. Rows appear on standard error as they come, so that a long run is seen to move.
  void add(std::vector<std::string> row);
  void print() const;
  // To `directory`/`file`: the rows so far, and from now on each one as it is added. Nothing when the
  // directory is "".
  void write_csv(const std::string& directory, const std::string& file);
  // False: a row could not be written, which is reported.
  [[nodiscard]] bool is_written() const { return is_written_; }

 private:
  void append(const std::vector<std::string>& row);

  std::string title_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::ofstream csv_;
  std::string csv_path_;
  bool is_written_ = true;
};

// Prints whether `figure` is at most `bar`, and returns it; where nothing is judged, true.
bool meets_bar(const std::string& what, double figure, double bar, const std::string& unit, bool judged);

// The same of a figure that is to be at least `floor`.
bool reaches_floor(const std::string& what, double figure, double floor, const std::string& unit,
                   bool judged);

// "%.*f"
std::string number(double value, int digits);

}  // namespace lathe::bench
