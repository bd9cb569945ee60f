// Tables, printed as Markdown and written as CSV, and bars.
#pragma once

#include <fstream>
#include <string>
#include <vector>

namespace lathe::bench {

class Table {
 public:
  Table(std::string title, std::vector<std::string> columns)
      : title_(std::move(title)), columns_(std::move(columns)) {}
  // Takes one value per column. The row is printed to standard error at once, to show progress.
  void add(std::vector<std::string> row);
  void print() const;
  // Writes the rows so far to `directory`/`file`, and each later row when it is added. Does nothing if the
  // directory is "".
  void write_csv(const std::string& directory, const std::string& file);
  // False if a row could not be written; a message was printed then.
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

// Prints and returns whether `figure` is at most `bar`. Returns true if `judged` is false.
bool meets_bar(const std::string& what, double figure, double bar, const std::string& unit, bool judged);

// The same for a figure that must be at least `floor`.
bool reaches_floor(const std::string& what, double figure, double floor, const std::string& unit,
                   bool judged);

// "%.*f"
std::string number(double value, int digits);

}  // namespace lathe::bench
