#include "pairwise.h"

#include <cstddef>

namespace lathe::conformance {
namespace {

class Pairs {
 public:
  explicit Pairs(const std::vector<int>& levels) {
    int total = 0;
    for (int count : levels) {
      first_.push_back(total);
      total += count;
    }
    width_ = total;
    uncovered_.assign(static_cast<size_t>(total) * total, false);
    for (size_t f = 0; f < levels.size(); ++f) {
      for (size_t g = f + 1; g < levels.size(); ++g) {
        for (int x = 0; x < levels[f]; ++x) {
          for (int y = 0; y < levels[g]; ++y) {
            uncovered_[index(f, x, g, y)] = true;
            ++left_;
          }
        }
      }
    }
  }

  int left() const { return left_; }

  int gain(const std::vector<int>& row) const {
    int count = 0;
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) count += uncovered_[index(f, row[f], g, row[g])];
    }
    return count;
  }

  void cover(const std::vector<int>& row) {
    left_ -= gain(row);
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) uncovered_[index(f, row[f], g, row[g])] = false;
    }
  }

  // Writes the levels of an uncovered pair to `row`.
  void seed(std::vector<int>* row, Random* random) const {
    const size_t start = static_cast<size_t>(random->below(static_cast<int64_t>(uncovered_.size())));
    for (size_t step = 0; step < uncovered_.size(); ++step) {
      const size_t at = (start + step) % uncovered_.size();
      if (!uncovered_[at]) continue;
      place(row, static_cast<int>(at) / width_);
      place(row, static_cast<int>(at) % width_);
      return;
    }
  }

 private:
  size_t index(size_t f, int x, size_t g, int y) const {
    return static_cast<size_t>(first_[f] + x) * width_ + first_[g] + y;
  }
  void place(std::vector<int>* row, int level) const {
    size_t f = first_.size() - 1;
    while (first_[f] > level) --f;
    (*row)[f] = level - first_[f];
  }

  std::vector<int> first_;  // for each factor, the number of its level 0 in the numbering of all levels
  int width_ = 0;
  std::vector<bool> uncovered_;
  int left_ = 0;
};

}  // namespace

std::vector<std::vector<int>> covering_array(const std::vector<int>& levels, Random* random) {
  Pairs pairs(levels);
  std::vector<std::vector<int>> rows;
  constexpr int kAttempts = 30;
  while (pairs.left() > 0) {
    std::vector<int> best;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      std::vector<int> row;
      for (int count : levels) row.push_back(static_cast<int>(random->below(count)));
      pairs.seed(&row, random);
      if (best.empty() || pairs.gain(row) > pairs.gain(best)) best = row;
    }
    pairs.cover(best);
    rows.push_back(best);
  }
  return rows;
}

}  // namespace lathe::conformance
