// AMD: loads a lane's vectors of weights, once and past the caches, and its part of A.
//
// No load is conditional. Loads beyond K or after the last group read the start of a row instead, one line
// for all lanes. Elements beyond K in a vector are zeroed in both operands where they are multiplied; zeroing
// them right after the load would wait for the load.
#include "core/plan.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kVectors = SkinnyShape::kUnitVectors, kBytes = SkinnyShape::kVector;

class Loads : public SkinnyWeights {
 public:
  explicit Loads(SkinnyTile& tile)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        per_vector_(s_.per_vector()),
        unsplit_(tile.kernel.config().split() == kNoSplit),
        whole_units_(unsplit_ && s_.in.k % s_.unit == 0) {}

  int64_t weights() const override { return kVectors; }

 protected:
  // First k of the unit that is `ahead` units after `place`. place[0] is the first k of `place`; place[1] is where K
  // ends, or 0 if all units of `place` lie beyond K.
  Value first_k(const Values& place, int64_t ahead) { return e_.add(place[0], ahead * s_.unit); }
  // Whether every unit of every round exists.
  bool whole_rounds() const { return unsplit_ && s_.in.k % s_.round() == 0; }

  Value row(unsigned operand, Value base, Value number) {
    const View& view = t_.view(operand);
    return element_pointer(e_, base, e_.mul(e_.to_index(number), view.row_stride), view.element);
  }
  Value element(Value pointer, Value elements) {
    return element_pointer(e_, pointer, elements, t_.view(1).element);
  }
  // The offset is in bytes and has 32 bits, so that one register holds what a lane adds to a row's address.
  Value lane_element(Value pointer, Value elements) {
    return element_pointer(e_, pointer, e_.mul(elements, s_.in.element_bytes), e_.b.getI8Type());
  }
  Value at_constant(Value pointer, int64_t elements) {
    const auto bytes = static_cast<int32_t>(elements * s_.in.element_bytes);
    return LLVM::GEPOp::create(e_.b, e_.loc, pointer.getType(), e_.b.getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{bytes});
  }
  Value load_words(Value pointer, int64_t bytes, bool once) {
    return LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(bytes / 4, e_.b.getI32Type()), pointer, bytes,
                                /*isVolatile=*/false, /*isNonTemporal=*/once);
  }

  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(e_.b, e_.loc, condition, x, y);
  }
  Value select(Value condition, Value x) { return select(condition, x, e_.i32(0)); }
  // Keeps the first `left` (i32, signed) elements of `x` and zeroes the others. `whole`: no vector ends in
  // its middle.
  Value cut(Value x, Value left, bool whole) {
    const auto ones_above = [&](int64_t elements, int64_t bits, Value otherwise) {
      Value more = arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::sgt, left, e_.i32(elements));
      return select(more, e_.i32(static_cast<int32_t>((uint64_t{1} << bits) - 1)), otherwise);
    };
    const int64_t in_word = 4 / s_.in.element_bytes, width = 8 * s_.in.element_bytes;
    const int64_t words = cast<VectorType>(x.getType()).getNumElements();
    Value mask = LLVM::PoisonOp::create(e_.b, e_.loc, x.getType());
    for (int64_t w = 0; w < words; ++w) {
      Value ones = e_.i32(0);
      for (int64_t i = whole ? in_word - 1 : 0; i < in_word; ++i)
        ones = ones_above(whole ? 0 : w * in_word + i, width * (i + 1), ones);
      mask = LLVM::InsertElementOp::create(e_.b, e_.loc, mask, ones, e_.i32(w));
    }
    return arith::AndIOp::create(e_.b, e_.loc, x, mask);
  }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  int64_t per_vector_;
  bool unsplit_, whole_units_;
};

// Weights stored N by K: vectors of weights and of A lie along K. Without matrix instructions a lane loads
// from four columns and from every row of A, and the lanes follow each other along K. With them a lane loads
// from its own column and its own row of A, and lanes with the same column follow each other along K.
class LoadsAlongK : public Loads {
 public:
  explicit LoadsAlongK(SkinnyTile& tile) : Loads(tile), matrix_(s_.in.matrix) {
    if (matrix_) {
      lane_row_ = e_.rem(t_.lane, e_.i32(16));
      Value group = e_.rem(e_.div(t_.lane, e_.i32(16)), e_.i32(s_.in.lane_groups));
      lane_k_ = e_.mul(group, per_vector_);
      // Rows that A lacks repeat its last row; their sums are not used.
      a_rows_.push_back(row_of_a(t_, e_.min(lane_row_, e_.i32(s_.in.rows - 1))));
    } else {
      lane_k_ = e_.mul(t_.lane, per_vector_);
      for (int64_t m = 0; m < s_.in.rows; ++m) a_rows_.push_back(row_of_a(t_, e_.i32(m)));
    }
  }

  int64_t values() const override { return kVectors + (matrix_ ? kVectors : s_.in.rows); }

  Values place(Value group, Value unit, Value valid) override {
    Value column = e_.add(e_.mul(group, s_.in.group), e_.mul(t_.warp_n, s_.warp_columns));
    Values place = {e_.mul(unit, s_.unit), select(valid, t_.depth)};
    for (int64_t c = 0; c < (matrix_ ? 1 : kVectors); ++c) {
      Value at = matrix_ ? e_.add(column, lane_row_) : e_.add(column, c);
      place.push_back(row(1, t_.b, e_.min(at, e_.sub(t_.columns, e_.i32(1)))));
    }
    return place;
  }

  Values load(const Values& place, int64_t ahead) override {
    Value k = first_k(place, ahead), inside = e_.less(k, place[1]), base = select(inside, k);
    const auto from = [&](Value line, int64_t offset) {
      Value start = element(line, base);
      if (whole_units_) return at_constant(lane_element(start, select(inside, lane_k_)), offset);
      Value lane_k = e_.add(lane_k_, offset);
      return lane_element(start, select(e_.less(e_.add(k, lane_k), place[1]), lane_k));
    };
    Values all;
    for (int64_t v = 0; v < kVectors; ++v)
      all.push_back(load_words(from(place[matrix_ ? 2 : 2 + v], offset(v)), kBytes, /*once=*/true));
    for (int64_t v = 0; v < values() - kVectors; ++v)
      all.push_back(load_words(from(a_rows_[matrix_ ? 0 : v], offset(v)), kBytes, /*once=*/false));
    return all;
  }

  Values complete(const Values& place, int64_t ahead, ArrayRef<Value> loaded) override {
    Values all(loaded.begin(), loaded.end());
    if (whole_rounds()) return all;
    Value left = e_.sub(e_.sub(place[1], first_k(place, ahead)), lane_k_);
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = cut(all[i], e_.sub(left, e_.i32(offset(i % kVectors))), s_.in.k % per_vector_ == 0);
    return all;
  }

 private:
  // Offset along K of a lane's vector.
  int64_t offset(int64_t vector) const { return matrix_ ? vector * s_.in.lane_groups * per_vector_ : 0; }

  bool matrix_;
  Value lane_row_, lane_k_;
  Values a_rows_;
};

// Weights stored K by N: vectors lie along N. A lane loads one vector from each of four rows, and the elements
// of these four k from every row of A. The lanes that read a line of a row follow each other along N.
class LoadsAlongN : public Loads {
 public:
  explicit LoadsAlongN(SkinnyTile& tile)
      : Loads(tile), lanes_(s_.warp_columns / per_vector_), a_bytes_(kVectors * s_.in.element_bytes) {
    lane_column_ = e_.mul(e_.rem(t_.lane, e_.i32(lanes_)), per_vector_);
    lane_k_ = e_.mul(e_.div(t_.lane, e_.i32(lanes_)), kVectors);
    for (int64_t m = 0; m < s_.in.rows; ++m) a_rows_.push_back(row_of_a(t_, e_.i32(m)));
  }

  int64_t values() const override { return kVectors + s_.in.rows; }

  Values place(Value group, Value unit, Value valid) override {
    Value column =
        e_.add(e_.mul(group, s_.in.group), e_.add(e_.mul(t_.warp_n, s_.warp_columns), lane_column_));
    Value exists = e_.less(column, t_.columns);
    return {e_.mul(unit, s_.unit), select(valid, t_.depth), lane_element(t_.b, select(exists, column))};
  }

  Values load(const Values& place, int64_t ahead) override {
    Value k = first_k(place, ahead), inside = e_.less(k, place[1]), base = select(inside, k);
    Values all;
    for (int64_t r = 0; r < kVectors; ++r) {
      Value lane_k = e_.add(lane_k_, r);
      Value own =
          whole_units_ ? select(inside, lane_k) : select(e_.less(e_.add(k, lane_k), place[1]), lane_k);
      Value line = row(1, row(1, place[2], base), own);
      all.push_back(load_words(line, kBytes, /*once=*/true));
    }
    Value own = select(e_.less(e_.add(k, lane_k_), place[1]), lane_k_);
    for (Value a_row : a_rows_)
      all.push_back(load_words(lane_element(element(a_row, base), own), a_bytes_, /*once=*/false));
    return all;
  }

  Values complete(const Values& place, int64_t ahead, ArrayRef<Value> loaded) override {
    Values all(loaded.begin(), loaded.end());
    if (whole_rounds()) return all;
    Value left = e_.sub(e_.sub(place[1], first_k(place, ahead)), lane_k_);
    for (int64_t r = 0; r < kVectors; ++r) all[r] = cut(all[r], e_.sub(left, e_.i32(r)), /*whole=*/true);
    for (size_t i = kVectors; i < all.size(); ++i) all[i] = cut(all[i], left, s_.in.k % kVectors == 0);
    return all;
  }

 private:
  int64_t lanes_, a_bytes_;
  Value lane_column_, lane_k_;
  Values a_rows_;
};

}  // namespace

std::unique_ptr<SkinnyWeights> make_skinny_loads(SkinnyTile& tile) {
  if (tile.shape.in.k_major) return std::make_unique<LoadsAlongK>(tile);
  return std::make_unique<LoadsAlongN>(tile);
}

}  // namespace lathe::emit
