// Summarises the rows of matmul: mean and worst case for each kind of shape, with the bar for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine.h"

namespace lathe::bench {

enum class Sizes { kLayer, kRagged, kOdd };  // a model's weight, 123x456x51234, or odd sizes

// The ratios of one shape. Larger is better; 0: not measured.
struct MatmulFigures {
  Element element = Element::kF32;
  int64_t m = 0;
  Sizes sizes = Sizes::kLayer;
  double of_best_peer = 0;  // best peer's time over Lathe's
  double of_roofline = 0;   // roofline's time over Lathe's
  double of_reading = 0;    // time of reading the weight in the same rounds over Lathe's, for M = 1
  double of_own_f32 = 0;
  double of_one_thread = 0;
};

// `weights` is "plain" or "packed". report() prints one line per kind of shape and figure, with bars only if
// `judged`, and writes the lines as CSV into `directory` unless that is "". It returns false if it cannot.
class MatmulSummary {
 public:
  void add(const char* weights, const MatmulFigures& figures) { rows_.push_back({weights, figures}); }
  [[nodiscard]] bool report(const std::string& directory, bool judged) const;

 private:
  struct Row {
    const char* weights;
    MatmulFigures figures;
  };
  std::vector<Row> rows_;
};

}  // namespace lathe::bench
