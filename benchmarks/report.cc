#include "report.h"

#include <cstdio>

#include "cli/csv.h"

namespace lathe::bench {
namespace {

std::string joined(const std::vector<std::string>& values, const char* separator) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? separator : "") + values[i];
  return text;
}

// For a NaN `met` must be false.
bool judge(const std::string& what, double figure, const char* sense, double bar, const std::string& unit,
           bool met, bool judged) {
  std::printf("%s: %.2f%s, %s %.2f: %s\n", what.c_str(), figure, unit.c_str(), sense, bar,
              !judged ? "not judged"
              : met   ? "met"
                      : "missed");
  return met || !judged;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  std::fprintf(stderr, "%s\n", joined(row, "  ").c_str());
  append(row);
  rows_.push_back(std::move(row));
}

void Table::print() const {
  std::printf("\n### %s\n\n| %s |\n|", title_.c_str(), joined(columns_, " | ").c_str());
  for (size_t i = 0; i < columns_.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const auto& row : rows_) std::printf("| %s |\n", joined(row, " | ").c_str());
  std::fflush(stdout);
}

void Table::write_csv(const std::string& directory, const std::string& file) {
  if (directory.empty()) return;
  csv_path_ = directory + "/" + file;
  csv_.open(csv_path_);
  append(columns_);
  for (const auto& row : rows_) append(row);
}

void Table::append(const std::vector<std::string>& row) {
  if (csv_path_.empty()) return;
  csv_ << cli::csv_row(row) << std::endl;
  if (csv_) return;
  std::fprintf(stderr, "cannot write %s\n", csv_path_.c_str());
  csv_path_.clear();
  is_written_ = false;
}

bool meets_bar(const std::string& what, double figure, double bar, const std::string& unit, bool judged) {
  return judge(what, figure, "at most", bar, unit, figure <= bar, judged);
}

bool reaches_floor(const std::string& what, double figure, double floor, const std::string& unit,
                   bool judged) {
  return judge(what, figure, "at least", floor, unit, figure >= floor, judged);
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace lathe::bench
