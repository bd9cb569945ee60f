// A chart of horizontal bars, as SVG.
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

std::string svg_of(const BarChart& chart);

}  // namespace lathe::cli
