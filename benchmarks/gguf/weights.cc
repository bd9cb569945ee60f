#include "weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lathe::bench {
namespace {

// Rows that are quantised. The weight repeats them: it is a prime, so no two copies are alike, and quantising is slow.
constexpr int64_t kRows = 61;

}  // namespace

RandomWeight::RandomWeight(GgufPeer* peer, const std::string& format, int64_t n, int64_t k, size_t pool_bytes,
                           uint64_t seed, size_t least_copies) {
  const size_t row = peer->bytes(format, k);
  bytes_ = row * static_cast<size_t>(n);
  stride_ = (bytes_ + 4095) / 4096 * 4096;
  const size_t copies = std::max(least_copies, pool_bytes / stride_);
  memory_ = allocate_huge(stride_ * copies);
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0, 1 / std::sqrt(static_cast<float>(k)));
  std::vector<float> numbers(static_cast<size_t>(kRows * k));
  for (float& number : numbers) number = normal(engine);
  std::vector<char> rows(row * kRows);
  peer->quantise(format, numbers.data(), kRows, k, rows.data());
  weight_ = {format, n, k, {}};
  size_t next = 0;
  for (size_t copy = 0; copy < copies; ++copy) {
    char* to = memory_.get() + copy * stride_;
    weight_.copies.push_back(to);
    for (int64_t j = 0; j < n; ++j)
      std::memcpy(to + row * static_cast<size_t>(j), &rows[row * (next++ % kRows)], row);
  }
}

Reference::Reference(GgufPeer* peer, const GgufWeight& weight, int64_t m, const float* a, uint64_t seed) {
  constexpr int kSamples = 256;
  std::mt19937_64 engine(seed);
  std::vector<float> row(static_cast<size_t>(weight.k));
  const size_t row_bytes = peer->bytes(weight.format, weight.k);
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto i = static_cast<int64_t>(engine() % static_cast<uint64_t>(m));
    const auto j = static_cast<int64_t>(engine() % static_cast<uint64_t>(weight.n));
    const char* from = static_cast<const char*>(weight.copies[0]) + row_bytes * static_cast<size_t>(j);
    peer->dequantise(weight.format, from, weight.k, row.data());
    double sum = 0;
    for (int64_t q = 0; q < weight.k; ++q)
      sum += static_cast<double>(row[static_cast<size_t>(q)]) * static_cast<double>(a[i * weight.k + q]);
    positions_.push_back(i * weight.n + j);
    values_.push_back(sum);
  }
}

double Reference::error(const float* d) const {
  double errors = 0, squares = 0;
  for (size_t s = 0; s < values_.size(); ++s) {
    const double difference = static_cast<double>(d[positions_[s]]) - values_[s];
    errors += difference * difference;
    squares += values_[s] * values_[s];
  }
  return std::sqrt(errors / squares);
}

}  // namespace lathe::bench
