// Draws charts of horizontal bars as SVG.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

struct BarChart {
  struct Bar {
    std::string name;
    double value;
  };
  std::string title, unit;
  std::vector<Bar> bars;
};

// Draws the charts one below the other, each with its own scale. A chart without bars is left out.
std::string svg_of(const std::vector<BarChart>& charts);

}  // namespace lathe::cli
