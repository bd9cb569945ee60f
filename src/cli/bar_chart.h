// Draws charts of horizontal bars as SVG.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

struct BarChart {
  struct Group {
    std::string name;
    std::vector<double> values;  // one per series; 0: no bar
  };
  std::string title, unit;
  std::vector<std::string> series;  // the legend; with fewer than two series there is none
  std::vector<Group> groups;
};

// Draws the charts one below the other, each with its own scale. The bars of a group lie side by side. A series without
// a bar is not in the legend, and a chart without groups is left out.
std::string svg_of(const std::vector<BarChart>& charts);

}  // namespace lathe::cli
