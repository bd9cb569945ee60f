#include "report.h"

#include <cstdio>
#include <fstream>

namespace lathe::bench {
namespace {

std::string joined(const std::vector<std::string>& values, const char* separator) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) text += (i ? separator : "") + values[i];
  return text;
}

}  // namespace

void Table::add(std::vector<std::string> row) {
  std::fprintf(stderr, "%s\n", joined(row, "  ").c_str());
  rows_.push_back(std::move(row));
}

void Table::print() const {
  std::printf("\n### %s\n\n| %s |\n|", title_.c_str(), joined(columns_, " | ").c_str());
  for (size_t i = 0; i < columns_.size(); ++i) std::printf(" --- |");
  std::printf("\n");
  for (const auto& row : rows_) std::printf("| %s |\n", joined(row, " | ").c_str());
  std::fflush(stdout);
}

void Table::write_csv(const std::string& directory, const std::string& file) const {
  if (directory.empty()) return;
  std::ofstream out(directory + "/" + file);
  out << joined(columns_, ",") << "\n";
  for (const auto& row : rows_) out << joined(row, ",") << "\n";
  if (!out) std::fprintf(stderr, "cannot write %s/%s\n", directory.c_str(), file.c_str());
}

bool meets_bar(const std::string& what, double figure, double bar, const std::string& unit, bool judged) {
  const bool met = figure <= bar;  // false of NaN
  std::printf("%s: %.2f%s, at most %.2f: %s\n", what.c_str(), figure, unit.c_str(), bar,
              !judged ? "not judged"
              : met   ? "met"
                      : "missed");
  return met || !judged;
}

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

}  // namespace lathe::bench
