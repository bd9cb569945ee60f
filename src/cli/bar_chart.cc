#include "cli/bar_chart.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace lathe::cli {
namespace {

constexpr int kNameWidth = 220, kBarWidth = 420, kValueWidth = 120, kLine = 14, kTop = 40, kGap = 8;
constexpr int kLegendWidth = 130;
// Okabe and Ito's colours, which people with colour blindness can tell apart. More series repeat them.
constexpr const char* kColours[] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"};

const char* colour_of(size_t series) { return kColours[series % std::size(kColours)]; }

std::string escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

bool has_bars(const BarChart& chart, size_t series) {
  return std::any_of(chart.groups.begin(), chart.groups.end(), [&](const BarChart::Group& group) {
    return series < group.values.size() && group.values[series] > 0;
  });
}

// Returns where the legend ends.
int add_legend(const BarChart& chart, int y, std::string* svg) {
  if (chart.series.size() < 2) return y;
  int x = kNameWidth;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    if (!has_bars(chart, i)) continue;
    absl::StrAppendFormat(svg,
                          "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>"
                          "<text x=\"%d\" y=\"%d\">%s</text>\n",
                          x, y, colour_of(i), x + 15, y + 9, escaped(chart.series[i]));
    x += kLegendWidth;
  }
  return y + kLine + kGap;
}

// Draws the chart from `top` down, and returns where it ends.
int add_chart(const BarChart& chart, int top, std::string* svg) {
  if (chart.groups.empty()) return top;
  double most = 0;
  for (const BarChart::Group& group : chart.groups)
    for (const double value : group.values) most = std::max(most, value);
  absl::StrAppendFormat(svg, "<text x=\"10\" y=\"%d\" font-size=\"15\">%s (%s)</text>\n", top + 24,
                        escaped(chart.title), escaped(chart.unit));
  int y = add_legend(chart, top + kTop, svg);
  for (const BarChart::Group& group : chart.groups) {
    absl::StrAppendFormat(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", kNameWidth - 8,
                          y + 11, escaped(group.name));
    for (size_t i = 0; i < group.values.size(); ++i) {
      if (group.values[i] <= 0) continue;
      const double length = group.values[i] / most * kBarWidth;
      absl::StrAppendFormat(svg,
                            "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>"
                            "<text x=\"%.1f\" y=\"%d\">%.4g</text>\n",
                            kNameWidth, y + 1, length, kLine - 2, colour_of(i), kNameWidth + length + 6,
                            y + 11, group.values[i]);
      y += kLine;
    }
    y += kGap;
  }
  return y;
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
