// Weights in quantised blocks for products by f32 FMAs. A lane loads a run of each of four columns, undecoded, and on AMD
// the same elements of every row of A. The lanes follow each other along K.
#include "kernels/matmul/emit_blocks.h"

#include "core/plan.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kColumns = SkinnyShape::kUnitVectors, kRun = GpuBlocks::kRun;

class Blocks : public SkinnyWeights {
 public:
  explicit Blocks(SkinnyTile& tile)
      : t_(tile),
        e_(tile.e),
        s_(tile.shape),
        view_(tile.view(1)),
        blocks_(e_, view_, tile.scales_of_b, SkinnyShape::kVector),
        of_line_(tile.scales_of_b.memory ? 2 : 1),
        whole_rounds_(tile.kernel.config().split() == kNoSplit && s_.in.k % s_.round() == 0) {
    for (int64_t m = 0; s_.in.amd && m < s_.in.rows; ++m) a_rows_.push_back(row_of_a(t_, e_.i32(m)));
  }

  int64_t values() const override { return kColumns * of_run_ + static_cast<int64_t>(a_rows_.size()); }
  int64_t weights() const override { return s_.in.amd ? kColumns : SkinnyShape::kUnitRegisters; }

  // Where K ends (0 if all units lie beyond it), the lane's first k, and each column's first byte and perhaps scale. In
  // place of a column that the tile does not have, its last column.
  Values place(Value group, Value unit, Value valid) override {
    Value column = e_.add(e_.mul(group, s_.in.group), e_.mul(t_.warp_n, s_.warp_columns));
    Value end = arith::SelectOp::create(e_.b, e_.loc, valid, t_.depth, e_.i32(0));
    Values place = {end, e_.add(e_.mul(unit, s_.unit), e_.mul(t_.lane, kRun))};
    for (int64_t c = 0; c < kColumns; ++c) {
      Value line = e_.min(e_.add(column, c), e_.sub(t_.columns, e_.i32(1)));
      const GpuBlockLine found = blocks_.line(e_.widen(line));
      place.push_back(found.byte);
      if (found.scales) place.push_back(found.scales);
    }
    return place;
  }

  // Beyond K the lanes read the start of the column.
  Values load(const Values& place, int64_t ahead) override {
    Value k = e_.add(place[1], ahead * s_.unit);
    k = e_.widen(arith::SelectOp::create(e_.b, e_.loc, e_.less(k, place[0]), k, e_.i32(0)));
    Values all;
    for (int64_t c = 0; c < kColumns; ++c) {
      const int64_t at = 2 + c * of_line_;
      const Values run = blocks_.load({place[at], of_line_ > 1 ? place[at + 1] : Value()}, k);
      of_run_ = static_cast<int64_t>(run.size());
      all.append(run);
    }
    for (Value row : a_rows_)
      all.push_back(LLVM::LoadOp::create(e_.b, e_.loc, words(), element_pointer(e_, row, k, e_.f32()),
                                         SkinnyShape::kVector));
    return all;
  }

  Values complete(const Values& place, int64_t ahead, ArrayRef<Value> loaded) override {
    Value k = e_.add(place[1], ahead * s_.unit), exists = e_.less(k, place[0]);
    const auto kept = [&](Value x) -> Value {
      if (whole_rounds_) return x;
      return arith::SelectOp::create(e_.b, e_.loc, exists, x, e_.zero(x.getType()));
    };
    Values all;
    for (int64_t c = 0; c < kColumns; ++c) {
      Value run = blocks_.decode(loaded.slice(c * of_run_, of_run_), e_.widen(k));
      run = kept(arith::BitcastOp::create(e_.b, e_.loc, words(), run));
      if (s_.in.amd) all.push_back(run);
      for (int64_t i = 0; !s_.in.amd && i < kRun; ++i)
        all.push_back(LLVM::ExtractElementOp::create(e_.b, e_.loc, run, e_.i32(i)));
    }
    for (Value row : loaded.drop_front(kColumns * of_run_)) all.push_back(kept(row));
    return all;
  }

 private:
  VectorType words() { return e_.vec(kRun, e_.b.getI32Type()); }

  SkinnyTile& t_;
  Emit& e_;
  const SkinnyShape& s_;
  const View& view_;
  GpuBlocks blocks_;
  int64_t of_line_, of_run_ = 0;  // values of place() for a column, and of load() for a run
  bool whole_rounds_;             // every unit of every round exists
  Values a_rows_;
};

}  // namespace

std::unique_ptr<SkinnyWeights> make_skinny_blocks(SkinnyTile& tile) { return std::make_unique<Blocks>(tile); }

}  // namespace lathe::emit
