// The roofline plot: what was reached beside what the machine allows, as an SVG of its own.
#pragma once

#include <string>
#include <vector>

namespace lathe::bench {

struct RooflinePoint {
  std::string dtype, label;  // "f32", "llama3-8b/qkv M 16"
  double intensity = 0;      // operations a byte, every operand counted once
  double flops = 0;          // operations a second
  double peer_flops = 0;     // of the best peer; 0: none
};

struct Roofline {
  std::string machine;
  int threads = 1;                          // 0: a device, which has none to tell
  std::string peak_name = "f32 FMA";        // of what fma_peak is
  double read_bandwidth = 0, fma_peak = 0;  // bytes and operations a second
  std::vector<RooflinePoint> points;

  // Both axes logarithmic, the points' labels as tooltips.
  std::string svg() const;
  // Nothing where there is no point or no file is named. False: the file cannot be written, which is
  // reported.
  bool write(const std::string& file) const;
};

}  // namespace lathe::bench
