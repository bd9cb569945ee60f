// Half-precision weights stored N by K: the warp's matrix product with the operands swapped, so that 16
// columns of D are the instruction's 16 rows and A's rows its 8 columns.
//
// K may come in any order as long as both operands agree. So a lane's 16 bytes of a column are used as they
// come: lane 4 g + t takes elements 8 t to 8 t + 7 of 32, for the columns g and g + 8 and of A's row g, and
// of each four registers the first two go into one product, the others into the next.
#include "compiler/ptx_hopper.h"
#include "compiler/ptx_mma.h"
#include "compiler/ptx_stream.h"
#include "kernels/matmul/emit_skinny.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kColumns = 16;  // of a warp
constexpr int64_t kUnit = 64, kHalf = 32,
                  kLaneElements = 8;  // along K: a line of 128 bytes, its half, a lane's part
constexpr int64_t kVectors = 4;       // of a unit: column g, g + 8, in either half
// Sums of one element: a product waits some 30 cycles for the one before it.
constexpr int64_t kChains = 2;

class MmaForm : public SkinnyForm {
 public:
  explicit MmaForm(SkinnyTile& tile)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        weights_(t_.p.views.find(t_.p.contraction.getDpsInputs()[1])->second),
        policy_(evict_first(e_)),
        g_(e_.div(t_.lane, e_.i32(4))),
        lane_k_(e_.mul(e_.rem(t_.lane, e_.i32(4)), kLaneElements)) {
    Value last = e_.i32(s_.in.rows - 1);
    for (int64_t i = 0; i < s_.padded_rows; i += 8) {
      Value row = e_.min(e_.add(g_, i), last);
      staged_.push_back(e_.add(e_.mul(row, s_.segment), e_.mul(lane_k_, s_.in.element_bytes)));
    }
  }

  int64_t sums() const override { return kChains * s_.padded_rows / 8 * 4; }

  // 16 bytes a column of the tile, of which `tail` elements exist; where another split has K's end, none do.
  void stage_tails() override {
    if (!s_.tail) return;
    Value whole = e_.mul(e_.div(t_.depth, e_.i32(kLaneElements)), kLaneElements);
    Value bytes = e_.mul(e_.sub(t_.depth, whole), s_.in.element_bytes);
    e_.loop(t_.thread, t_.columns, t_.kernel.threads(), [&](Value column) {
      Value from = element_pointer(e_, column_pointer(column), whole, weights_.element);
      // A copy of nothing still names an address: one that exists.
      from = arith::SelectOp::create(e_.b, e_.loc, e_.equal(bytes, e_.i32(0)), t_.b, from);
      copy_async(e_, shared_pointer(e_, e_.add(tails(), e_.mul(column, 16))), from, bytes);
    });
  }

  Values place(Value group, Value unit, Value valid) override {
    Value column = e_.add(e_.mul(group, s_.in.group), e_.add(e_.mul(t_.warp_n, kColumns), g_));
    Value k = e_.add(e_.mul(unit, kUnit), lane_k_), left = e_.sub(t_.depth, k), none = e_.i32(0);
    Values place;
    for (int64_t i : {0, 8}) {
      Value at = e_.add(column, i),
            exists = arith::AndIOp::create(e_.b, e_.loc, valid, e_.less(at, t_.columns));
      // Elements of K from the lane's first on; may be negative.
      place.push_back(arith::SelectOp::create(e_.b, e_.loc, exists, left, none));
      place.push_back(element_pointer(e_, column_pointer(at), k, weights_.element));
      if (s_.tail) place.push_back(e_.add(tails(), e_.mul(at, 16)));
    }
    return place;
  }

  Values load(const Values& place, int64_t ahead) override {
    Values all;
    for (int64_t v = 0; v < kVectors; ++v) {
      const int64_t k = offset_k(ahead, v), i = of_column(v);
      Values words = load_streaming(e_, place[i + 1], k * s_.in.element_bytes, policy_, place[i],
                                    s_.tail ? k + kLaneElements - 1 : k);
      all.append(words.begin(), words.end());
    }
    return all;
  }

  // By half, then by block of 8 rows.
  Values rows(Value staged) override {
    Values all;
    for (int64_t half = 0; half < 2; ++half)
      for (Value row : staged_) {
        Values words = load_shared_words(e_, e_.add(staged, row), half * s_.in.rows * s_.segment);
        all.append(words.begin(), words.end());
      }
    return all;
  }

  void multiply(MutableArrayRef<Value> sums, const Values& place, int64_t ahead, ArrayRef<Value> weights,
                ArrayRef<Value> rows) override {
    Values words(weights.begin(), weights.end());
    for (int64_t v = 0; s_.tail && v < kVectors; ++v) {
      const int64_t i = of_column(v);
      replace_shared_words(e_, MutableArrayRef<Value>(words).slice(4 * v, 4), place[i + 2], place[i],
                           offset_k(ahead, v) + s_.tail);
    }
    const int64_t blocks = staged_.size();
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t q = 0; q < 4; q += 2) {
        const Value *low = &words[8 * half + q], *high = low + 4;
        for (int64_t i = 0; i < blocks; ++i) {
          MutableArrayRef<Value> to = sums.slice(4 * (kChains * i + q / 2), 4);
          const Values a = {low[0], high[0], low[1], high[1]};
          llvm::copy(
              multiply_matrices(e_, weights_.element, a, rows.slice(4 * (blocks * half + i) + q, 2), to),
              to.begin());
        }
      }
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) override {
    Value row = e_.mul(e_.rem(t_.lane, e_.i32(4)), 2);
    Value column = e_.add(e_.mul(t_.warp_n, kColumns), g_);
    Value to = e_.add(at, e_.mul(e_.add(e_.mul(row, pitch), column), 4));
    for (int64_t i = 0; i < s_.padded_rows / 2; ++i) {
      const int64_t r = i / 4 * 8 + i % 2, c = i % 4 / 2 * 8, chain = i / 4 * 4 * kChains + i % 4;
      Value sum = arith::AddFOp::create(e_.b, e_.loc, sums[chain], sums[chain + 4]);
      const auto write = [&] { store_shared(e_, to, 4 * (r * pitch + c), sum); };
      // Of the lanes' rows r to r + 6 some may not exist.
      if (r + 6 < rows)
        write();
      else if (r < rows)
        e_.when(e_.less(e_.add(row, r), e_.i32(rows)), write);
    }
  }

 private:
  // The second of a unit's vectors is of column g + 8, the third and fourth lie half a line further.
  static int64_t offset_k(int64_t ahead, int64_t vector) { return ahead * kUnit + vector / 2 * kHalf; }
  int64_t of_column(int64_t vector) const { return vector % 2 * (s_.tail ? 3 : 2); }
  Value column_pointer(Value column) {
    return element_pointer(e_, t_.b, e_.mul(e_.to_index(column), weights_.row_stride), weights_.element);
  }
  Value tails() { return e_.add(t_.shared, s_.tails_at); }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  const View& weights_;
  Value policy_, g_, lane_k_;
  Values staged_;  // the lane's place in a unit of A, for each 8 rows
};

}  // namespace

std::unique_ptr<SkinnyForm> make_mma_form(SkinnyTile& tile) { return std::make_unique<MmaForm>(tile); }

}  // namespace lathe::emit
