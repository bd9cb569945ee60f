// A roofline plot as SVG: measured rates under the ceilings of the machine.
#pragma once

#include <string>
#include <vector>

namespace lathe::bench {

struct RooflinePoint {
  std::string dtype, label;  // "f32", "llama3-8b/qkv M 16"
  double intensity = 0;      // operations per byte, every operand counted once
  double flops = 0;          // operations per second
  double peer_flops = 0;     // operations per second of the best peer; 0: no peer
};

struct Roofline {
  std::string machine;
  int threads = 1;                          // 0: a GPU
  std::string peak_name = "f32 FMA";        // what fma_peak measures
  double read_bandwidth = 0, fma_peak = 0;  // bytes and operations per second
  std::vector<RooflinePoint> points;

  // Both axes are logarithmic. The labels of the points are tooltips.
  std::string svg() const;
  // Does nothing without points or if `file` is "". Returns false, with a message, if it cannot write.
  bool write(const std::string& file) const;
};

}  // namespace lathe::bench
