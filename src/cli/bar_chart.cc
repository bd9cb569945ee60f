#include "cli/bar_chart.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace lathe::cli {
namespace {

constexpr int kNameWidth = 220, kBarWidth = 420, kValueWidth = 120, kLine = 20, kTop = 40;

std::string escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

// Draws the chart from `top` down, and returns where it ends.
int add_chart(const BarChart& chart, int top, std::string* svg) {
  if (chart.bars.empty()) return top;
  double most = 0;
  for (const BarChart::Bar& bar : chart.bars) most = std::max(most, bar.value);
  absl::StrAppendFormat(svg, "<text x=\"10\" y=\"%d\" font-size=\"15\">%s (%s)</text>\n", top + 24,
                        escaped(chart.title), escaped(chart.unit));
  int y = top + kTop;
  for (const BarChart::Bar& bar : chart.bars) {
    const double length = most > 0 ? bar.value / most * kBarWidth : 0;
    absl::StrAppendFormat(
        svg,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" "
        "height=\"%d\" fill=\"#4878a8\"/><text x=\"%.1f\" y=\"%d\">%.4g</text>\n",
        kNameWidth - 8, y + 13, escaped(bar.name), kNameWidth, y + 3, length, kLine - 6,
        kNameWidth + length + 6, y + 13, bar.value);
    y += kLine;
  }
  return y + kLine / 2;
}

}  // namespace

std::string svg_of(const std::vector<BarChart>& charts) {
  std::string bars;
  int height = 0;
  for (const BarChart& chart : charts) height = add_chart(chart, height, &bars);
  const int width = kNameWidth + kBarWidth + kValueWidth;
  return absl::StrFormat(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
             "font-family=\"sans-serif\" "
             "font-size=\"12\">\n<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
             width, height, width, height) +
         bars + "</svg>\n";
}

}  // namespace lathe::cli
