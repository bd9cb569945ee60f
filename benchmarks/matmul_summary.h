// What matmul's rows come to: means and worst cases of each kind of shape, beside the bars that are set for
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine.h"

namespace lathe::bench {

enum class Sizes { kLayer, kRagged, kOdd };  // of a weight: a model's, the ragged split-K case, odd ones

// One shape's figures, each a ratio in which more is better; 0: not measured.
struct MatmulFigures {
  Element element = Element::kF32;
  int64_t m = 0;
  Sizes sizes = Sizes::kLayer;
  double of_best_peer = 0;  // its time over Lathe's
  double of_roofline = 0;   // the roofline's time over Lathe's
  double of_reading = 0;    // the time of reading the weight, in the same rounds, over Lathe's: of M = 1
  double of_own_f32 = 0;
  double of_one_thread = 0;
};

// Prints a line a kind of shape and figure, and keeps it as CSV in `directory` ("": not), false where it
// cannot. `weights`: "plain" or "packed". Where nothing is judged, no bar stands beside a figure.
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
