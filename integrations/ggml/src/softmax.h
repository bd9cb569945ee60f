// The softmax of attention, block by block: a block of scores becomes weights, and what earlier blocks gave is scaled.
#pragma once

#include <cstdint>

namespace lathe_ggml {

constexpr int64_t kKeys = 128;  // keys of a block

// Rows of one block of queries. Scores and masks are logarithms to base 2.
struct SoftmaxRows {
  int64_t rows = 0, width = 0;
  float* scores = nullptr;      // [rows][kKeys]; become weights
  float* largest = nullptr;     // [rows]: the largest score so far
  float* weight_sum = nullptr;  // [rows]: the sum of weights so far
  float* sums = nullptr;        // [rows][width]: the weighted values so far
  // [mask_rows][kKeys], added to the scores of rows r, r + mask_rows, ...; NULL: nothing is added.
  const float* mask = nullptr;
  int64_t mask_rows = 1;
};

void take_weights(const SoftmaxRows& block);

// The effect of a block of the mask on its scores.
enum class MaskKind { kNothing, kAdds, kHidesAll };
// Converts `count` values of f16 to f32 times `factor`. Returns what they do to the scores.
MaskKind read_mask(const uint16_t* mask, int64_t count, float factor, float* out);

}  // namespace lathe_ggml
