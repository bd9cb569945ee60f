// CUDA: products of f32 by FMAs. A's rows are read from shared memory when they are needed; kept in
// registers, they would take the place of weights in flight.
#include "compiler/ptx_stream.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kFour = 4;  // elements of a vector; vectors of a unit

class Fma : public SkinnyProducts {
 public:
  explicit Fma(SkinnyTile& tile) : t_(tile), e_(tile.e), s_(tile.shape) {}

  // Four columns for each row of A.
  Values zeros() override { return Values(kFour * s_.in.rows, e_.zero(t_.sum())); }
  Values rows(Value staged) override { return {staged}; }

 protected:
  Values as_f32(ArrayRef<Value> words) {
    Values all;
    for (Value word : words) all.push_back(arith::BitcastOp::create(e_.b, e_.loc, e_.f32(), word));
    return all;
  }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
};

// A lane has its own k for four columns, so the lanes' sums are added at the end.
class FmaAlongK : public Fma {
 public:
  using Fma::Fma;

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    const Values w = as_f32(weights);
    Value at = e_.add(rows[0], e_.mul(t_.lane, SkinnyShape::kVector));
    for (int64_t m = 0; m < s_.in.rows; ++m) {
      const Values x = as_f32(load_shared_words(e_, at, m * s_.segment, 4));
      for (int64_t k = 0; k < kFour; ++k)
        for (int64_t c = 0; c < kFour; ++c)
          sums[kFour * m + c] = e_.fma(w[kFour * c + k], x[k], sums[kFour * m + c]);
    }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t) override {
    Value to = e_.add(at, e_.mul(t_.warp_n, 4 * s_.warp_columns));
    store_share(t_, share_out(t_, sums, s_.in.wave / 2), kFour, to, pitch);
  }
};

// A lane has four columns of its own and all of the unit's K.
class FmaAlongN : public Fma {
 public:
  using Fma::Fma;

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    const Values w = as_f32(weights);
    for (int64_t m = 0; m < s_.in.rows; ++m) {
      const Values x = as_f32(load_shared_words(e_, rows[0], m * s_.segment, 4));
      for (int64_t k = 0; k < kFour; ++k)
        for (int64_t c = 0; c < kFour; ++c)
          sums[kFour * m + c] = e_.fma(w[kFour * k + c], x[k], sums[kFour * m + c]);
    }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t) override {
    Value column = e_.add(e_.mul(t_.warp_n, s_.warp_columns), e_.mul(t_.lane, kFour));
    Value to = e_.add(at, e_.mul(column, 4));
    for (int64_t m = 0; m < s_.in.rows; ++m) t_.store_shared(to, 4 * m * pitch, sums.slice(kFour * m, kFour));
  }
};

}  // namespace

std::unique_ptr<SkinnyProducts> make_skinny_fma(SkinnyTile& tile) {
  if (tile.shape.in.k_major) return std::make_unique<FmaAlongK>(tile);
  return std::make_unique<FmaAlongN>(tile);
}

}  // namespace lathe::emit
