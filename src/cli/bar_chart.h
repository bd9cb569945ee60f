// Charts of horizontal bars, as SVG.
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

// One below the other, each on a scale of its own; what has no bars is left out.
std::string svg_of(const std::vector<BarChart>& charts);

}  // namespace lathe::cli
