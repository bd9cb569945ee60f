// B in quantised blocks, and perhaps A. A thread loads pieces of 32 elements of a line, undecoded, and a stage later
// stores their codes to shared memory as 16-bit floats, which is exact, with the scales of every group of 16, 32 or 128
// behind them. The matrix instructions sum products of A and codes over a group; the sums are scaled in f32
// (MmaProducts).
#include <algorithm>

#include "kernels/matmul/emit_pieces.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kPiece = GpuPieces::kElements;

// Byte offset in a stage of the scales of a line in group `group` of K. On AMD the minima of the group follow, and
// columns whose sums one lane has are adjacent.
Value scales_at(Emit& e, const MmaOperand& x, Value group, Value column) {
  const SumLayout sums = x.instruction.layout();
  if (!x.instruction.amd()) return e.mul(e.add(e.mul(group, x.width), column), 4 * x.scale_words);
  if (sums.run == 1) {
    Value inside = e.rem(column, e.i32(x.instruction.columns));
    Value lane = e.rem(inside, e.i32(sums.column_lanes)), number = e.div(inside, e.i32(sums.column_lanes));
    column = e.add(e.sub(column, inside), e.add(e.mul(lane, x.instruction.sums()), number));
  }
  return e.mul(e.add(e.mul(group, x.width * x.scale_words), column), 4);
}

class BlockCopies : public MmaCopies {
 public:
  BlockCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e),
        x_(x),
        shared_(shared),
        pieces_(e, x.view, x.scales, kernel.alignment(), x.code, std::min(x.scaled, kPiece)) {
    const int64_t in_row = x.block / kPiece, pieces = x.width * in_row, threads = kernel.threads();
    Value thread = e.to_i32(kernel.thread()), last = e.sub(x.limit, e.idx(1));
    if (threads > pieces) exists_ = e.less(thread, e.i32(pieces));
    piece_ = e.rem(thread, e.i32(in_row));
    for (int64_t i = 0; i < std::max<int64_t>(pieces / threads, 1); ++i) {
      rows_.push_back(e.add(e.div(thread, e.i32(in_row)), i * (threads / in_row)));
      sources_.push_back(pieces_.line(e.min(e.to_index(rows_.back()), last)));
    }
  }

  // Beyond K the start of the column is read.
  void begin(Value k0, Value, int64_t, int64_t) override {
    Value k = e_.add(k0, e_.to_index(e_.mul(piece_, kPiece)));
    k = select(e_.less(k, x_.depth), k, e_.idx(0));
    loaded_.clear();
    for (const GpuBlockLine& source : sources_) {
      const Values loaded = pieces_.load(source, k);
      loaded_.append(loaded.begin(), loaded.end());
    }
    loaded_.push_back(k0);
  }

  void end(Value stage) override {
    const auto store = [&] {
      Value k = e_.add(loaded_.back(), e_.to_index(e_.mul(piece_, kPiece)));
      ArrayRef<Value> loaded = ArrayRef(loaded_).drop_back();
      const size_t of_piece = loaded.size() / rows_.size();
      for (Value row : rows_) {
        store_piece(pieces_.decode(loaded.take_front(of_piece), k), stage, row, e_.less(k, x_.depth));
        loaded = loaded.drop_front(of_piece);
      }
    };
    if (exists_)
      e_.when(exists_, store);
    else
      store();
  }

  Values carried() const override { return loaded_; }
  void carry(ArrayRef<Value> loaded) override { loaded_.assign(loaded.begin(), loaded.end()); }

 private:
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(e_.b, e_.loc, condition, x, y);
  }

  // Elements beyond K become zero, and so do their scales.
  void store_piece(const GpuPieces::Decoded& d, Value stage, Value row, Value exists) {
    const bool whole = x_.whole_blocks || (Emit::known(x_.depth) && *Emit::known(x_.depth) % x_.block == 0);
    const auto kept = [&](Value x) -> Value {
      if (whole) return x;
      return select(exists, x, e_.zero(x.getType()));
    };
    const int64_t chunks = kPiece * x_.element_bytes / 16;
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      Values words;
      for (int64_t i = 0; i < 4; ++i) words.push_back(kept(d.words[static_cast<size_t>(chunk * 4 + i)]));
      store(words, e_.add(stage, x_.layout.at(e_, row, e_.add(e_.mul(piece_, chunks), chunk))), x_.place);
    }
    for (size_t g = 0; g < d.scales.size(); ++g) {
      Values words = {kept(d.scales[g])};
      if (!d.minima.empty()) words.push_back(kept(d.minima[g]));
      // Pieces of a larger group store the same scale.
      Value group = x_.scaled > kPiece ? e_.div(piece_, e_.i32(x_.scaled / kPiece))
                                       : e_.add(e_.mul(piece_, kPiece / x_.scaled), static_cast<int64_t>(g));
      Value at = e_.add(stage, scales_at(e_, x_, group, row));
      if (!x_.instruction.amd()) {
        store(words, at, x_.scales_place);
        continue;
      }
      for (auto [word, value] : llvm::enumerate(words))
        store({value}, at, x_.scales_place + static_cast<int64_t>(word) * x_.width * 4);
    }
  }
  // Stores adjacent words to shared memory, aligned to all of them.
  void store(const Values& words, Value at, int64_t place) {
    Value all = words[0];
    const auto count = static_cast<int64_t>(words.size());
    if (count > 1) {
      all = LLVM::PoisonOp::create(e_.b, e_.loc, e_.vec(count, words[0].getType()));
      for (auto [i, word] : llvm::enumerate(words))
        all = LLVM::InsertElementOp::create(e_.b, e_.loc, all, word, e_.i32(static_cast<int64_t>(i)));
    }
    LLVM::StoreOp::create(e_.b, e_.loc, all, shared_at(e_, shared_, at, place),
                          static_cast<unsigned>(4 * count));
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  GpuPieces pieces_;
  Value exists_;  // whether the thread has pieces; null: all threads have
  Value piece_;   // i32: the number of the thread's pieces along K of a stage
  Values rows_;   // i32: the lines of the tile that they belong to
  SmallVector<GpuBlockLine> sources_;
  Values loaded_;  // last: the first k of the stage
};

class WarpScales : public MmaFragments {
 public:
  WarpScales(Emit& e, const MmaOperand& b, Value shared, const MmaWarp& warp)
      : e_(e), b_(b), shared_(shared) {
    const SumLayout layout = b.instruction.layout();
    Value lane = e.rem(e.div(warp.lane, e.i32(layout.column_divisor)), e.i32(layout.column_lanes));
    column_ = e.add(warp.first_column, e.mul(lane, layout.column_step));
  }

  Values load(Value stage, int64_t group) override {
    Value at = e_.add(stage, scales_at(e_, b_, e_.i32(group), column_));
    const int64_t words = 2 * b_.scale_words;
    Values all;
    for (int64_t column = 0; column < b_.warp_width; column += b_.instruction.columns) {
      Value pointer = shared_at(e_, shared_, at, b_.scales_place + column * 4 * b_.scale_words);
      Value two = LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(words, e_.f32()), pointer,
                                       static_cast<unsigned>(4 * words));
      for (int64_t i = 0; i < words; ++i)
        all.push_back(LLVM::ExtractElementOp::create(e_.b, e_.loc, two, e_.i32(i)));
    }
    return all;
  }

 private:
  Emit& e_;
  const MmaOperand& b_;
  Value shared_;
  Value column_;  // i32: the lane's first column of the tile
};

class LaneScales : public MmaFragments {
 public:
  LaneScales(Emit& e, const MmaOperand& b, Value shared, const MmaWarp& warp)
      : e_(e), b_(b), shared_(shared), layout_(b.instruction.layout()) {
    Value lanes = e.rem(e.div(warp.lane, e.i32(layout_.column_divisor)), e.i32(layout_.column_lanes));
    column_ = e.add(warp.first_column, e.mul(lanes, layout_.column_step));
  }

  Values load(Value stage, int64_t group) override {
    Value at = e_.add(stage, scales_at(e_, b_, e_.i32(group), column_));
    Values all;
    for (int64_t column = 0; column < b_.warp_width; column += b_.instruction.columns)
      for (int64_t word = 0; word < b_.scale_words; ++word)
        all.push_back(of_fragment(at, b_.scales_place + 4 * (column + word * b_.width)));
    return all;
  }

 private:
  Value of_fragment(Value at, int64_t place) {
    constexpr int64_t kTogether = 4;
    const int64_t sums = b_.instruction.sums();
    Value all = LLVM::PoisonOp::create(e_.b, e_.loc, e_.vec(sums, e_.f32()));
    for (int64_t i = 0; i < sums; i += kTogether) {
      const int64_t column = layout_.run == 1 ? i : i / layout_.run * layout_.run_columns + i % layout_.run;
      Value four = LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(kTogether, e_.f32()),
                                        shared_at(e_, shared_, at, place + 4 * column), 4 * kTogether);
      for (int64_t j = 0; j < kTogether; ++j) {
        Value scale = LLVM::ExtractElementOp::create(e_.b, e_.loc, four, e_.i32(j));
        all = LLVM::InsertElementOp::create(e_.b, e_.loc, all, scale, e_.i32(i + j));
      }
    }
    return all;
  }

  Emit& e_;
  const MmaOperand& b_;
  Value shared_;
  SumLayout layout_;
  Value column_;  // i32: the lane's first column of the tile
};

class StagedRowScales : public MmaFragments {
 public:
  StagedRowScales(Emit& e, const MmaOperand& a, Value shared, const MmaWarp& warp)
      : e_(e), a_(a), shared_(shared) {
    const SumLayout layout = a.instruction.layout();
    row_ = e.add(warp.first_row, e.rem(e.div(warp.lane, e.i32(layout.row_divisor)), e.i32(layout.row_lanes)));
  }

  Values load(Value stage, int64_t group) override {
    Value at = e_.add(stage, scales_at(e_, a_, e_.i32(group), row_));
    Values all;
    const int64_t step = a_.instruction.amd() ? a_.instruction.rows : a_.instruction.layout().run_rows;
    for (int64_t row = 0; row < a_.warp_width; row += step) {
      Value pointer = shared_at(e_, shared_, at, a_.scales_place + row * 4);
      all.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.f32(), pointer, /*alignment=*/4));
    }
    return all;
  }

 private:
  Emit& e_;
  const MmaOperand& a_;
  Value shared_;
  Value row_;  // i32: the lane's first row of the tile
};

}  // namespace

std::unique_ptr<MmaFragments> make_row_scales(Emit& e, const MmaOperand& a, Value shared,
                                              const MmaWarp& warp) {
  return std::make_unique<StagedRowScales>(e, a, shared, warp);
}
std::unique_ptr<MmaCopies> make_block_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared) {
  return std::make_unique<BlockCopies>(e, kernel, x, shared);
}
std::unique_ptr<MmaFragments> make_block_scales(Emit& e, const MmaOperand& b, Value shared,
                                                const MmaWarp& warp) {
  if (b.instruction.amd()) return std::make_unique<LaneScales>(e, b, shared, warp);
  return std::make_unique<WarpScales>(e, b, shared, warp);
}

}  // namespace lathe::emit
