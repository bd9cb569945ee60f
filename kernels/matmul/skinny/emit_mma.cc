// CUDA: products by the warp's matrix instructions with swapped operands: 16 columns of D are the
// instruction's 16 rows, and A's rows are its 8 columns.
//
// K and D's columns may come in any order as long as both operands agree, so lanes use their data as loaded.
// Lane 4 g + t of an instruction holds the same k of the instruction's rows g and g + 8 and of A's row g, in
// a low and a high half. Weights stored N by K: a vector's first two registers are the two halves of one
// product, the other two those of the next. Stored K by N: a lane has vectors of four rows. Elements of rows
// 0 and 1 are paired as low halves, those of rows 2 and 3 as high halves; of a pair of columns the first is
// row g, the second row g + 8.
#include "compiler/ptx_mma.h"
#include "compiler/ptx_stream.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class Mma : public SkinnyProducts {
 public:
  // `lane_bytes`: a lane's part of a segment of staged A.
  Mma(SkinnyTile& tile, int64_t lane_bytes)
      : t_(tile), e_(tile.e), s_(tile.shape), element_(tile.view(1).element), blocks_(s_.padded_rows / 8) {
    g_ = e_.div(t_.lane, e_.i32(4));
    four_ = e_.rem(t_.lane, e_.i32(4));
    for (int64_t i = 0; i < blocks_; ++i) {
      // Rows that A lacks repeat its last row; their sums are not used.
      Value row = e_.min(e_.add(g_, 8 * i), e_.i32(s_.in.rows - 1));
      staged_.push_back(e_.add(e_.mul(row, s_.segment), e_.mul(four_, lane_bytes)));
    }
  }

 protected:
  // Adds the product of the registers `a` (four) and `b` (two) to the four sums from `at` on.
  void add(MutableArrayRef<Value> sums, int64_t at, ArrayRef<Value> a, ArrayRef<Value> b) {
    MutableArrayRef<Value> to = sums.slice(at, 4);
    llvm::copy(multiply_matrices(e_, element_, rounded(a), rounded(b), to), to.begin());
  }
  // Calls `write` in the lanes whose row, 2 t + row, exists.
  void where_exists(int64_t row, int64_t rows, const std::function<void()>& write) {
    if (row + 6 < rows)
      write();
    else if (row < rows)
      e_.when(e_.less(e_.add(e_.mul(four_, 2), row), e_.i32(rows)), write);
  }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  Type element_;
  int64_t blocks_;
  Value g_, four_;
  Values staged_;  // offset of the lane's part in a unit of A, for each block of 8 rows

 private:
  // mma.sync would truncate f32 to tf32, which doubles the error and biases it towards zero. Round instead.
  Values rounded(ArrayRef<Value> words) {
    Values all(words.begin(), words.end());
    if (element_.isF32())
      for (Value& word : all) word = round_to_tf32(e_, word);
    return all;
  }
};

class MmaAlongK : public Mma {
 public:
  explicit MmaAlongK(SkinnyTile& tile) : Mma(tile, SkinnyShape::kVector) {}

  // Two accumulators for each sum, because a product waits about 30 cycles for the one before it.
  Values zeros() override { return Values(kChains * blocks_ * 4, e_.zero(t_.sum())); }

  // Order: by half, then by block of 8 rows.
  Values rows(Value staged) override {
    Values all;
    for (int64_t half = 0; half < 2; ++half)
      for (Value row : staged_) {
        Values words = load_shared_words(e_, e_.add(staged, row), half * s_.in.rows * s_.segment, 4);
        all.append(words.begin(), words.end());
      }
    return all;
  }

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t q = 0; q < 4; q += 2) {
        const Value *low = &weights[8 * half + q], *high = low + 4;
        for (int64_t i = 0; i < blocks_; ++i)
          add(sums, 4 * (kChains * i + q / 2), {low[0], high[0], low[1], high[1]},
              rows.slice(4 * (blocks_ * half + i) + q, 2));
      }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) override {
    Value column = e_.add(e_.mul(t_.warp_n, s_.warp_columns), g_);
    Value to = e_.add(at, e_.mul(e_.add(e_.mul(four_, 2 * pitch), column), 4));
    for (int64_t i = 0; i < 4 * blocks_; ++i) {
      const int64_t r = i / 4 * 8 + i % 2, c = i % 4 / 2 * 8, chain = i / 4 * 4 * kChains + i % 4;
      Value sum = add_sums(e_, sums[chain], sums[chain + 4]);
      where_exists(r, rows, [&] { t_.store_shared(to, 4 * (r * pitch + c), sum); });
    }
  }

 private:
  static constexpr int64_t kChains = 2;
};

class MmaAlongN : public Mma {
 public:
  explicit MmaAlongN(SkinnyTile& tile) : Mma(tile, tile.shape.segment / 4) {}

  // Order: by pair of columns, then by block of 8 rows.
  Values zeros() override { return Values(kPairs * blocks_ * 4, e_.zero(t_.sum())); }

  Values rows(Value staged) override {
    Values all;
    for (Value row : staged_) {
      Values words = load_shared_words(e_, e_.add(staged, row), 0, 2);
      all.append(words.begin(), words.end());
    }
    return all;
  }

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    for (int64_t pair = 0; pair < kPairs; ++pair) {
      const auto halves = [&](int64_t row, bool second) {
        return pair_halves(e_, weights[4 * row + pair], weights[4 * (row + 1) + pair], second);
      };
      const Values a = {halves(0, false), halves(0, true), halves(2, false), halves(2, true)};
      for (int64_t i = 0; i < blocks_; ++i) add(sums, 4 * (blocks_ * pair + i), a, rows.slice(2 * i, 2));
    }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) override {
    Value column = e_.add(e_.mul(t_.warp_n, s_.warp_columns), e_.mul(g_, 2 * kPairs));
    Value to = e_.add(at, e_.mul(e_.add(e_.mul(four_, 2 * pitch), column), 4));
    for (int64_t i = 0; i < 2 * blocks_; ++i)
      for (int64_t pair = 0; pair < kPairs; pair += 2) {
        const int64_t r = i / 2 * 8 + i % 2, first = 4 * (blocks_ * pair + i / 2) + i % 2,
                      second = first + 4 * blocks_;
        where_exists(r, rows, [&] {
          t_.store_shared(to, 4 * (r * pitch + 2 * pair),
                          {sums[first], sums[first + 2], sums[second], sums[second + 2]});
        });
      }
  }

 private:
  static constexpr int64_t kPairs = 4;  // pairs of columns in a vector
};

}  // namespace

std::unique_ptr<SkinnyProducts> make_skinny_mma(SkinnyTile& tile) {
  if (tile.shape.in.k_major) return std::make_unique<MmaAlongK>(tile);
  return std::make_unique<MmaAlongN>(tile);
}

}  // namespace lathe::emit
