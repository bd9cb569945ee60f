// AMD: products without matrix instructions. Each lane multiplies its own part of K: two or four elements of
// a register at a time (dot products), or f32 by FMAs, two at a time if the target has packed FMAs.
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kVectors = SkinnyShape::kUnitVectors;

class LaneProducts : public SkinnyProducts {
 public:
  explicit LaneProducts(SkinnyTile& tile)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        lanes_(*tile.lanes),
        dots_(lanes_.kind == LaneProduct::kDot),
        packs_(!dots_ &&
               packs_fmas(absl::string_view(tile.kernel.arch().data(), tile.kernel.arch().size()))) {}

 protected:
  Value word(Value vector, int64_t i) {
    return LLVM::ExtractElementOp::create(e_.b, e_.loc, vector, e_.i32(i));
  }
  // sum + the dot product of the elements of two registers (i32).
  Value dot(Value x, Value y, Value sum) {
    const auto elements = [&](Value v) -> Value {
      Type element = t_.view(1).element;
      if (element.isInteger()) return v;
      return LLVM::BitcastOp::create(e_.b, e_.loc, e_.vec(2, element), v);
    };
    Value clamps = e_.constant(e_.b.getI1Type(), 0);
    return call_amd(e_, lanes_.name, sum.getType(), {elements(x), elements(y), sum, clamps});
  }
  // The elements of a register as f32: one f32, or two bf16.
  Values widened(Value x) {
    const auto f32 = [&](Value bits) -> Value {
      return LLVM::BitcastOp::create(e_.b, e_.loc, e_.f32(), bits);
    };
    if (s_.in.element_bytes == 4) return {f32(x)};
    return {f32(arith::ShLIOp::create(e_.b, e_.loc, x, e_.i32(16))),
            f32(arith::AndIOp::create(e_.b, e_.loc, x, e_.i32(static_cast<int32_t>(0xffff0000))))};
  }
  // All elements of a vector as f32.
  Values as_f32(Value vector) {
    Values all;
    for (int64_t i = 0; i < cast<VectorType>(vector.getType()).getNumElements(); ++i)
      all.append(widened(word(vector, i)));
    return all;
  }
  Type pair() { return e_.vec(2, e_.f32()); }
  Value pair_of(Value x, Value y) {
    Value pair = LLVM::PoisonOp::create(e_.b, e_.loc, this->pair());
    pair = LLVM::InsertElementOp::create(e_.b, e_.loc, pair, x, e_.i32(0));
    return LLVM::InsertElementOp::create(e_.b, e_.loc, pair, y, e_.i32(1));
  }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  const LaneProduct& lanes_;
  bool dots_, packs_;  // packs_: each accumulator is a pair of f32
};

// A lane has its own k for four columns, so the lanes' sums are added at the end. Packed pairs are adjacent along K.
class LaneProductsAlongK : public LaneProducts {
 public:
  using LaneProducts::LaneProducts;

  // Four columns for each row of A.
  Values zeros() override { return Values(kVectors * s_.in.rows, e_.zero(packs_ ? pair() : t_.sum())); }

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    for (int64_t i = 0; i < SkinnyShape::kVector / 4; ++i)
      for (int64_t c = 0; c < kVectors; ++c)
        for (int64_t m = 0; m < s_.in.rows; ++m) {
          Value& sum = sums[kVectors * m + c];
          if (dots_)
            sum = dot(word(weights[c], i), word(rows[m], i), sum);
          else
            add(sum, weights[c], rows[m], i);
        }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t) override {
    Values single;
    for (Value sum : sums) single.push_back(packs_ ? add_sums(e_, word(sum, 0), word(sum, 1)) : sum);
    Value to = e_.add(at, e_.mul(t_.warp_n, 4 * s_.warp_columns));
    store_share(t_, share_out(t_, single, s_.in.wave / 2), kVectors, to, pitch);
  }

 private:
  // Adds the products of the elements of register `i`. Packed f32 take two registers at every second `i`.
  void add(Value& sum, Value w, Value x, int64_t i) {
    Values ws = widened(word(w, i)), xs = widened(word(x, i));
    if (!packs_) {
      for (size_t j = 0; j < ws.size(); ++j) sum = e_.fma(ws[j], xs[j], sum);
      return;
    }
    if (ws.size() == 1) {
      if (i % 2 != 0) return;
      ws.append(widened(word(w, i + 1))), xs.append(widened(word(x, i + 1)));
    }
    sum = e_.fma(pair_of(ws[0], ws[1]), pair_of(xs[0], xs[1]), sum);
  }
};

// A lane has the columns of one vector and four k. Packed pairs are adjacent along N.
class LaneProductsAlongN : public LaneProducts {
 public:
  explicit LaneProductsAlongN(SkinnyTile& tile) : LaneProducts(tile), columns_(s_.per_vector()) {}

  // The columns, or pairs of columns, for each row of A.
  Values zeros() override {
    return Values(s_.in.rows * columns_ / (packs_ ? 2 : 1), e_.zero(packs_ ? pair() : t_.sum()));
  }

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    if (dots_)
      multiply_dots(sums, weights, rows);
    else
      multiply_fmas(sums, weights, rows);
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t) override {
    Values single;
    for (Value sum : sums) {
      single.push_back(packs_ ? word(sum, 0) : sum);
      if (packs_) single.push_back(word(sum, 1));
    }
    const int64_t lanes = s_.warp_columns / columns_;
    Value lane_column = e_.mul(e_.rem(t_.lane, e_.i32(lanes)), columns_);
    Value column = e_.add(e_.mul(t_.warp_n, s_.warp_columns), lane_column);
    store_share(t_, share_out(t_, single, s_.in.wave / 2, lanes), columns_, e_.add(at, e_.mul(column, 4)),
                pitch);
  }

 private:
  // Transposes register `i` of four rows of weights. For each column it returns registers that hold two or
  // four elements adjacent along K.
  SmallVector<Values> sorted(ArrayRef<Value> weights, int64_t i) {
    const auto permuted = [&](Value x, Value y, uint32_t bytes) {
      return call_amd(e_, "llvm.amdgcn.perm", x.getType(), {y, x, e_.i32(static_cast<int32_t>(bytes))});
    };
    constexpr uint32_t kLowHalves = 0x05040100, kHighHalves = 0x07060302;
    constexpr uint32_t kLowBytes = 0x05010400, kHighBytes = 0x07030602;  // interleaved
    Values w;
    for (Value row : weights) w.push_back(word(row, i));
    if (s_.in.element_bytes == 2)
      return {{permuted(w[0], w[1], kLowHalves), permuted(w[2], w[3], kLowHalves)},
              {permuted(w[0], w[1], kHighHalves), permuted(w[2], w[3], kHighHalves)}};
    SmallVector<Values> all;
    for (uint32_t bytes : {kLowBytes, kHighBytes}) {
      Value first = permuted(w[0], w[1], bytes), second = permuted(w[2], w[3], bytes);
      for (uint32_t halves : {kLowHalves, kHighHalves}) all.push_back({permuted(first, second, halves)});
    }
    return all;
  }

  void multiply_dots(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) {
    const int64_t in_word = 4 / s_.in.element_bytes;
    for (int64_t i = 0; i < SkinnyShape::kVector / 4; ++i)
      for (auto [c, along_k] : llvm::enumerate(sorted(weights, i)))
        for (int64_t m = 0; m < s_.in.rows; ++m)
          for (auto [k, w] : llvm::enumerate(along_k)) {
            Value& sum = sums[columns_ * m + in_word * i + c];
            sum = dot(w, word(rows[m], k), sum);
          }
  }

  void multiply_fmas(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) {
    SmallVector<Values> x;
    for (Value row : rows) x.push_back(as_f32(row));
    for (int64_t r = 0; r < kVectors; ++r) {
      const Values w = as_f32(weights[r]);
      for (int64_t c = 0; c < columns_; c += packs_ ? 2 : 1)
        for (int64_t m = 0; m < s_.in.rows; ++m) {
          Value& sum = sums[(columns_ * m + c) / (packs_ ? 2 : 1)];
          sum = packs_ ? e_.fma(pair_of(w[c], w[c + 1]), pair_of(x[m][r], x[m][r]), sum)
                       : e_.fma(w[c], x[m][r], sum);
        }
    }
  }

  int64_t columns_;
};

}  // namespace

std::unique_ptr<SkinnyProducts> make_skinny_dot(SkinnyTile& tile) {
  if (tile.shape.in.k_major) return std::make_unique<LaneProductsAlongK>(tile);
  return std::make_unique<LaneProductsAlongN>(tile);
}

}  // namespace lathe::emit
