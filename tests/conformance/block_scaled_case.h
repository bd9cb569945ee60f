// What the tests of block scales and of 4-bit weights share: plain operands, expected elements and the fixture.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "case_limits.h"
#include "device.h"
#include "device_copies.h"
#include "reference/block_scaled.h"

namespace lathe::conformance {

inline constexpr lathe_scale_layout kLayouts[] = {LATHE_SCALES_BY_LINE, LATHE_SCALES_BY_BLOCK,
                                                  LATHE_SCALES_PACKED_BY_FOUR, LATHE_SCALES_TILED};
inline bool has_layout(const reference::ScaledElements& f, lathe_scale_layout layout, int64_t lines_each) {
  if (layout == LATHE_SCALES_PACKED_BY_FOUR) return f.scale == LATHE_F8_E8M0;
  if (layout == LATHE_SCALES_TILED) return f.scale != LATHE_F32 && lines_each == 1;
  return true;
}

// A matrix of plain floats, row by row.
struct Floats {
  lathe_dtype dtype;
  int64_t columns;
  std::vector<uint8_t> bytes;

  Floats(lathe_dtype of, int64_t rows, int64_t width, reference::Normal* random) : dtype(of), columns(width) {
    bytes.resize(static_cast<size_t>(rows * width) * bytes_of(of));
    for (int64_t i = 0; i < rows * width; ++i)
      reference::store(bytes.data(), of, i, random == nullptr ? NAN : static_cast<double>(random->next()));
  }
  double at(int64_t row, int64_t column) const {
    return reference::load(bytes.data(), dtype, row * columns + column);
  }
  lathe_operand operand(int64_t rows_of_matrix) {
    lathe_operand o = LATHE_OPERAND_INIT;
    o.data = bytes.data();
    o.dtype = dtype;
    o.batch_stride = rows_of_matrix * columns;
    return o;
  }
};

// What D must be: the value of element (matrix, m, n) and the sum of the magnitudes of its products.
struct Expected {
  double value, magnitude;
};
template <typename A, typename B>
Expected dot(int64_t k, const A& a, const B& b) {
  Expected e = {0, 0};
  for (int64_t i = 0; i < k; ++i) {
    const double x = a(i) * b(i);
    e.value += x;
    e.magnitude += std::abs(x);
  }
  return e;
}
// f32 sums in any order, with A and B decoded to f32, then rounding to D's dtype. A few products dominate a sum of fp8
// numbers, and each of the K additions may round at their size.
// `further`: a further error of the sums, as part of their magnitude.
inline bool is_near(double got, const Expected& e, int64_t k, lathe_dtype dtype, double further = 0) {
  if (std::isnan(e.value)) return std::isnan(got);
  const double sums = ((4 + std::sqrt(static_cast<double>(k))) * 0x1p-23 + further) * e.magnitude;
  if (std::isinf(got)) return got * e.value > 0 && std::abs(e.value) + sums > reference::largest(dtype);
  return std::abs(got - e.value) <=
         sums + reference::rounding(dtype) * (std::abs(e.value) + sums) + reference::smallest_rounding(dtype);
}

// Copies on a GPU of operands with block scales, and of others.
class ScaledCopies {
 public:
  explicit ScaledCopies(lathe_device* device) : copies_(device) {}

  void add(const reference::ScaledMatrix& x) {
    for (const auto& [data, bytes] : x.memory()) copies_.add(const_cast<void*>(data), bytes);
  }
  template <typename T>
  void add(std::vector<T>& host) {
    copies_.add(host);
  }
  // The descriptor of a product with the copies of its operands. It points into this object.
  template <typename Desc>
  Desc moved(const Desc& desc) {
    Desc moved = copies_.moved(desc);
    for (auto& [operand, scale] : {std::pair{&moved.a, &scale_a_}, {&moved.b, &scale_b_}}) {
      if (operand->scale == nullptr) continue;
      *scale = *operand->scale;
      copies_.move(scale->data);
      copies_.move(scale->global);
      operand->scale = scale;
    }
    return moved;
  }
  void fetch() const { copies_.fetch(); }

 private:
  DeviceCopies copies_;
  lathe_scale scale_a_ = LATHE_SCALE_INIT, scale_b_ = LATHE_SCALE_INIT;
};

class BlockScaled : public ConformanceTest {
 protected:
  void SetUp() override {
    ConformanceTest::SetUp();
    if (IsSkipped()) return;
    if (is_fallback()) GTEST_SKIP() << "there are no generic kernels for block scales";
  }
  int64_t one_of(std::initializer_list<int64_t> values) {
    return values.begin()[random_.below(static_cast<int64_t>(values.size()))];
  }
  reference::Normal random_{test_seed() ^ 0xb10c};
};

}  // namespace lathe::conformance
