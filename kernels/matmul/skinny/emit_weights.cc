// CUDA: where a lane's 16-byte vectors of weights lie in each layout, and how vectors that extend beyond K or N are
// completed.
#include "compiler/ptx_mma.h"
#include "compiler/ptx_stream.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kVectors = 4;  // vectors in a unit
constexpr int64_t kWords = SkinnyShape::kUnitRegisters / kVectors;

class Weights : public SkinnyWeights {
 public:
  explicit Weights(SkinnyTile& tile)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        view_(tile.view(1)),
        policy_(evict_first(e_)),
        per_vector_(SkinnyShape::kVector / s_.in.element_bytes),
        tails_(e_.add(tile.shared, s_.tails_at)) {}

  int64_t values() const override { return SkinnyShape::kUnitRegisters; }
  int64_t weights() const override { return SkinnyShape::kUnitRegisters; }

 protected:
  Value element(Value pointer, Value elements) {
    return element_pointer(e_, pointer, elements, view_.element);
  }
  Value line(Value number) { return e_.mul(e_.to_index(number), view_.row_stride); }
  Value select(Value condition, Value x) {
    return arith::SelectOp::create(e_.b, e_.loc, condition, x, e_.i32(0));
  }
  // Copies the first `bytes` (i32) of 16 to `shared`. A copy of 0 bytes still needs a valid address.
  void stage(Value shared, Value from, Value bytes) {
    from = arith::SelectOp::create(e_.b, e_.loc, e_.equal(bytes, e_.i32(0)), t_.b, from);
    copy_async(e_, shared_pointer(e_, shared), from, bytes);
  }
  static void append(Values& to, const Values& from) { to.append(from.begin(), from.end()); }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  const View& view_;
  Value policy_;
  int64_t per_vector_;
  Value tails_;
};

// Weights stored N by K: vectors lie along K. With matrix instructions lane 4 g + t loads from the columns g
// and g + 8, in both halves of a line. With FMAs the lanes follow each other along K, in four columns.
class AlongK : public Weights {
 public:
  explicit AlongK(SkinnyTile& tile)
      : Weights(tile),
        matrix_(s_.in.matrix),
        columns_(matrix_ ? 2 : kVectors),
        column_(matrix_ ? e_.div(t_.lane, e_.i32(4)) : e_.i32(0)),
        k_(e_.mul(matrix_ ? e_.rem(t_.lane, e_.i32(4)) : t_.lane, per_vector_)) {}

  // Stages the `tail` existing elements of each column of the tile; none if K ends in another split.
  void stage_tails() override {
    if (!s_.tail) return;
    Value whole = e_.mul(e_.div(t_.depth, e_.i32(per_vector_)), per_vector_);
    Value bytes = e_.mul(e_.sub(t_.depth, whole), s_.in.element_bytes);
    e_.loop(t_.thread, t_.columns, t_.kernel.threads(), [&](Value column) {
      stage(e_.add(tails_, e_.mul(column, SkinnyShape::kVector)), element(element(t_.b, line(column)), whole),
            bytes);
    });
  }

  // For each of the lane's columns: the number of elements from its first k on (may be negative), their
  // address, and the address of the column's tail.
  Values place(Value group, Value unit, Value valid) override {
    Value column = e_.add(e_.mul(group, s_.in.group), e_.add(e_.mul(t_.warp_n, s_.warp_columns), column_));
    Value k = e_.add(e_.mul(unit, s_.unit), k_), left = e_.sub(t_.depth, k);
    Values place;
    for (int64_t i = 0; i < columns_; ++i) {
      Value at = e_.add(column, i * distance());
      Value exists = arith::AndIOp::create(e_.b, e_.loc, valid, e_.less(at, t_.columns));
      place.push_back(select(exists, left));
      place.push_back(element(element(t_.b, line(at)), k));
      if (s_.tail) place.push_back(e_.add(tails_, e_.mul(at, SkinnyShape::kVector)));
    }
    return place;
  }

  Values load(const Values& place, int64_t ahead) override {
    Values all;
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t k = ahead * s_.unit + offset(v);
      const Value* of = column(place, v);
      append(all, load_streaming(e_, of[1], k * s_.in.element_bytes, policy_, of[0],
                                 s_.tail ? k + per_vector_ - 1 : k));
    }
    return all;
  }

  Values complete(const Values& place, int64_t ahead, ArrayRef<Value> loaded) override {
    Values words(loaded.begin(), loaded.end());
    for (int64_t v = 0; s_.tail && v < kVectors; ++v) {
      const Value* of = column(place, v);
      replace_shared_words(e_, MutableArrayRef<Value>(words).slice(kWords * v, kWords), of[2], of[0],
                           ahead * s_.unit + offset(v) + s_.tail);
    }
    return words;
  }

 private:
  int64_t distance() const { return matrix_ ? 8 : 1; }  // between a lane's columns
  int64_t offset(int64_t vector) const { return vector / columns_ * s_.unit / 2; }  // along K
  const Value* column(const Values& place, int64_t vector) const {
    return &place[vector % columns_ * (s_.tail ? 3 : 2)];
  }

  bool matrix_;
  int64_t columns_;
  Value column_, k_;
};

// Weights stored K by N: vectors lie along N, one in each of four rows. With matrix instructions lane 4 g + t
// loads rows 4 t to 4 t + 3 at the columns 8 g to 8 g + 7. With FMAs the lanes follow each other along N.
//
// A vector that extends beyond N is loaded whole, and the columns that do not exist are left out of D. Only the vector
// in the last row is staged, because memory may end behind that row.
class AlongN : public Weights {
 public:
  explicit AlongN(SkinnyTile& tile)
      : Weights(tile),
        column_(e_.mul(s_.in.matrix ? e_.div(t_.lane, e_.i32(4)) : t_.lane, per_vector_)),
        k_(s_.in.matrix ? e_.mul(e_.rem(t_.lane, e_.i32(4)), kVectors) : e_.i32(0)) {}

  // The end of the last row, if it lies in this tile.
  void stage_tails() override {
    if (!s_.tail) return;
    e_.when(e_.equal(t_.thread, e_.i32(0)), [&] {
      Value whole = e_.mul(e_.div(t_.columns, e_.i32(per_vector_)), per_vector_);
      Value bytes = e_.mul(e_.sub(t_.columns, whole), s_.in.element_bytes);
      stage(tails_, element(element(t_.b, line(e_.sub(t_.depth, e_.i32(1)))), whole), bytes);
    });
  }

  // The number of rows from the lane's first on (may be negative), their address, and that number again if the
  // lane's vector extends beyond N, else 0.
  Values place(Value group, Value unit, Value valid) override {
    Value column = e_.add(e_.mul(group, s_.in.group), e_.add(e_.mul(t_.warp_n, s_.warp_columns), column_));
    Value k = e_.add(e_.mul(unit, s_.unit), k_);
    Value exists = arith::AndIOp::create(e_.b, e_.loc, valid, e_.less(column, t_.columns));
    Value left = select(exists, e_.sub(t_.depth, k)), at = element(element(t_.b, line(k)), column);
    if (!s_.tail) return {left, at};
    Value ends = select(e_.less(t_.columns, e_.add(column, per_vector_)), left);
    Value all_but_last =
        arith::SelectOp::create(e_.b, e_.loc, e_.equal(ends, e_.i32(0)), left, e_.sub(left, e_.i32(1)));
    return {all_but_last, at, ends};
  }

  Values load(const Values& place, int64_t ahead) override {
    Values all;
    for (int64_t r = 0; r < kVectors; ++r) {
      const int64_t k = ahead * s_.unit + r;
      append(all,
             load_streaming(e_, element(place[1], e_.mul(view_.row_stride, k)), 0, policy_, place[0], k));
    }
    return all;
  }

  Values complete(const Values& place, int64_t ahead, ArrayRef<Value> loaded) override {
    Values words(loaded.begin(), loaded.end());
    for (int64_t r = 0; s_.tail && r < kVectors; ++r)
      replace_shared_words(e_, MutableArrayRef<Value>(words).slice(kWords * r, kWords), tails_, place[2],
                           ahead * s_.unit + r + 1);
    return words;
  }

 private:
  Value column_, k_;
};

}  // namespace

std::unique_ptr<SkinnyWeights> make_skinny_weights(SkinnyTile& tile) {
  if (tile.shape.in.k_major) return std::make_unique<AlongK>(tile);
  return std::make_unique<AlongN>(tile);
}

}  // namespace lathe::emit
