// AMD: copies operands in aligned chunks of 16 bytes through registers to shared memory. There they are
// K-contiguous; operands that are not so in global memory are transposed in registers.
#include <algorithm>

#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// K-contiguous operands. A thread copies the same chunk of rows that lie row_step apart. Rows beyond the
// operand repeat its last row.
class ChunkCopies : public MmaCopies {
 public:
  ChunkCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e), x_(x), shared_(shared) {
    const SwizzledRows& layout = x.layout;
    const int64_t threads = kernel.threads(), chunks = layout.chunks();
    Value thread = e.to_i32(kernel.thread()), chunk = e.rem(thread, e.i32(chunks));
    Value row = e.div(thread, e.i32(chunks)), last = e.sub(x.limit, e.idx(1));
    const int64_t row_step = threads / chunks, count = (layout.rows + row_step - 1) / row_step;
    if (row_step > layout.rows) exists_ = e.less(row, e.i32(layout.rows));
    first_ = e.mul(e.to_index(chunk), x.chunk_elements());
    for (int64_t i = 0; i < count; ++i) {
      Value at = e.add(row, i * row_step);
      Value source = row_at(e, x.view, e.min(e.to_index(at), last));
      sources_.push_back(e.add(e.add(x.view.offset, source), first_));
      targets_.push_back(layout.at(e, at, chunk));
    }
  }

  // A chunk with at least one existing element is safe to read, because an aligned chunk does not cross a
  // page. In place of a chunk beyond K the row's first chunk is read.
  void begin(Value k0, Value, int64_t slice, int64_t slices) override {
    if (slice == 0) loaded_.clear();
    Value at = k0, present;
    if (x_.whole_blocks) {
      at = x_.existing(e_, k0);
    } else {
      Value k = e_.add(k0, first_), inside = e_.less(k, x_.depth), none = e_.sub(e_.idx(0), first_);
      at = arith::SelectOp::create(e_.b, e_.loc, inside, k0, none);
      Value elements = e_.min(e_.sub(x_.depth, k), e_.idx(x_.chunk_elements()));
      Value bytes = e_.mul(e_.to_i32(elements), x_.element_bytes);
      present = arith::SelectOp::create(e_.b, e_.loc, inside, bytes, e_.i32(0));
    }
    const int64_t count = sources_.size();
    for (int64_t i = count * slice / slices; i < count * (slice + 1) / slices; ++i)
      loaded_.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(4, e_.b.getI32Type()),
                                             pointer_to(e_, x_.view.memory, e_.add(sources_[i], at)),
                                             kBytes));
    if (!x_.whole_blocks && slice + 1 == slices) loaded_.push_back(present);
  }

  void end(Value stage) override {
    const auto store = [&] {
      Value mask = x_.whole_blocks ? Value() : mask_of(loaded_.back());
      for (auto [value, target] : llvm::zip(loaded_, targets_)) {
        Value kept = mask ? arith::AndIOp::create(e_.b, e_.loc, value, mask).getResult() : value;
        LLVM::StoreOp::create(e_.b, e_.loc, x_.as_multiplied(e_, kept),
                              shared_at(e_, shared_, e_.add(stage, target), x_.place), kBytes);
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
  static constexpr int64_t kBytes = 16, kWords = 4;

  // Ones in the first `bytes` bytes of a chunk. The mask is applied where chunks are stored; applying it
  // right after the load would wait for the load.
  Value mask_of(Value bytes) {
    Value mask = LLVM::PoisonOp::create(e_.b, e_.loc, e_.vec(kWords, e_.b.getI32Type()));
    for (int64_t word = 0; word < kWords; ++word) {
      Value ones = ones_of(bytes, word);
      mask = LLVM::InsertElementOp::create(e_.b, e_.loc, mask, ones, e_.i32(word));
    }
    return mask;
  }
  Value ones_of(Value bytes, int64_t word) {
    const auto above = [&](int64_t limit) { return e_.less(e_.i32(limit), bytes); };
    const auto choose = [&](Value condition, Value x, Value y) -> Value {
      return arith::SelectOp::create(e_.b, e_.loc, condition, x, y);
    };
    Value ones = e_.i32(0);
    const int64_t elements = 4 / x_.element_bytes;
    for (int64_t i = 0; i < elements; ++i) {
      const uint64_t bits = (uint64_t{1} << (8 * x_.element_bytes * (i + 1))) - 1;
      ones = choose(above(4 * word + i * x_.element_bytes), e_.i32(static_cast<int32_t>(bits)), ones);
    }
    return ones;
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  Value exists_;    // whether the thread has rows; null: all threads have
  Value first_;     // index: the chunk's first element in its row
  Values sources_;  // index: offsets at K = 0
  Values targets_;  // i32: byte offsets in a stage
  Values loaded_;   // chunks; last, unless K is whole blocks, their bytes within K (i32)
};

// Operands contiguous along M or N (their width). A thread reads the same chunk at several adjacent k, and
// stores those k of each row of A (column of B) together. Chunks beyond the width repeat the first one.
class TransposedCopies : public MmaCopies {
 public:
  TransposedCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e), x_(x), shared_(shared), elements_(x.chunk_elements()) {
    const int64_t threads = kernel.threads(), chunks = x.width / elements_;
    // Adjacent k for one store of 4 to 16 bytes: as many as leave work for every thread.
    neighbours_ = elements_;
    while (neighbours_ * x.element_bytes > 4 && chunks * (x.block / neighbours_) < threads) neighbours_ /= 2;
    Value thread = e.to_i32(kernel.thread());
    Value chunk = e.rem(thread, e.i32(chunks)), group = e.div(thread, e.i32(chunks));
    const int64_t groups = x.block / neighbours_, step = std::max<int64_t>(threads / chunks, 1);
    // If a tile has more chunks along its width than threads, a thread takes several, `threads` chunks apart.
    parts_ = std::max<int64_t>(chunks / threads, 1);
    group_step_ = step, count_ = std::max<int64_t>(groups / step, 1);
    if (groups < step) exists_ = e.less(group, e.i32(groups));
    first_row_ = e.mul(chunk, elements_);
    k_ = e.mul(group, neighbours_);
    for (int64_t part = 0; part < parts_; ++part) {
      Value row = e.to_index(e.add(first_row_, part * threads * elements_));
      Value column = arith::SelectOp::create(e.b, e.loc, e.less(row, x.limit), row, e.idx(0));
      sources_.push_back(e.add(x.view.offset, column));
    }
    part_rows_ = threads * elements_;
  }

  void begin(Value k0, Value, int64_t slice, int64_t slices) override {
    if (slice == 0) loaded_.clear();
    if (slice + 1 < slices) return;
    const bool whole = x_.whole_blocks;
    if (whole) k0 = x_.existing(e_, k0);
    const bool inside = whole && !exists_;  // threads without a group would read beyond the block
    Value last = e_.sub(x_.depth, e_.idx(1));
    for (Value source : sources_)
      for (int64_t i = 0; i < count_; ++i)
        for (int64_t j = 0; j < neighbours_; ++j) {
          Value k = e_.add(k0, e_.to_index(e_.add(k_, i * group_step_ * neighbours_ + j)));
          Value at = e_.add(source, e_.mul(inside ? k : e_.min(k, last), x_.view.row_stride));
          loaded_.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(4, e_.b.getI32Type()),
                                                 pointer_to(e_, x_.view.memory, at), /*alignment=*/16));
        }
    if (whole) return;
    Value in_block = e_.to_i32(e_.min(e_.sub(x_.depth, k0), e_.idx(x_.block)));
    loaded_.push_back(arith::SelectOp::create(e_.b, e_.loc, e_.less(k0, x_.depth), in_block, e_.i32(0)));
  }

  void end(Value stage) override {
    const auto store = [&] {
      for (int64_t part = 0; part < parts_; ++part)
        for (int64_t i = 0; i < count_; ++i) store_group(stage, part, i);
    };
    if (exists_)
      e_.when(exists_, store);
    else
      store();
  }

  Values carried() const override { return loaded_; }
  void carry(ArrayRef<Value> loaded) override { loaded_.assign(loaded.begin(), loaded.end()); }

 private:
  void store_group(Value stage, int64_t part, int64_t i) {
    const int64_t words = neighbours_ * x_.element_bytes / 4;
    Value k = e_.add(k_, i * group_step_ * neighbours_);
    Values neighbours;
    for (int64_t j = 0; j < neighbours_; ++j) {
      Value chunk = loaded_[(part * count_ + i) * neighbours_ + j];
      if (!x_.whole_blocks) {
        Value exists = e_.less(e_.add(k, j), loaded_.back());
        chunk = arith::SelectOp::create(e_.b, e_.loc, exists, chunk, e_.zero(chunk.getType()));
      }
      neighbours.push_back(chunk);
    }
    Value in_chunk = e_.rem(e_.mul(k, x_.element_bytes), e_.i32(16));
    Value chunk = e_.div(e_.mul(k, x_.element_bytes), e_.i32(16));
    for (int64_t row = 0; row < elements_; ++row) {
      Value packed = LLVM::PoisonOp::create(e_.b, e_.loc, e_.vec(words, e_.b.getI32Type()));
      for (int64_t word = 0; word < words; ++word)
        packed =
            LLVM::InsertElementOp::create(e_.b, e_.loc, packed, word_of(neighbours, row, word), e_.i32(word));
      Value place = x_.layout.at(e_, e_.add(first_row_, part * part_rows_ + row), chunk);
      Value target = shared_at(e_, shared_, e_.add(stage, e_.add(place, in_chunk)), x_.place);
      LLVM::StoreOp::create(e_.b, e_.loc, x_.as_multiplied(e_, packed), target, 4 * words);
    }
  }

  // Packs element `row` of as many adjacent k as a word holds. It works on words because LLVM turns them into
  // byte permutations, but vectors of 8- and 16-bit elements into single 16-bit shifts.
  Value word_of(const Values& neighbours, int64_t row, int64_t word) {
    const int64_t bits = 8 * x_.element_bytes, in_word = 32 / bits;
    const int64_t shift = row % in_word * bits;
    Value result;
    for (int64_t j = 0; j < in_word; ++j) {
      Value x =
          LLVM::ExtractElementOp::create(e_.b, e_.loc, neighbours[word * in_word + j], e_.i32(row / in_word));
      if (shift > 0) x = arith::ShRUIOp::create(e_.b, e_.loc, x, e_.i32(shift));
      if (bits < 32) x = arith::AndIOp::create(e_.b, e_.loc, x, e_.i32((int64_t{1} << bits) - 1));
      if (j > 0) x = arith::ShLIOp::create(e_.b, e_.loc, x, e_.i32(j * bits));
      result = result ? arith::OrIOp::create(e_.b, e_.loc, result, x).getResult() : x;
    }
    return result;
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t elements_, neighbours_;  // elements of a chunk; adjacent k that are stored together
  int64_t count_, group_step_;     // a thread's groups of such k, and the distance from one to the next
  int64_t parts_, part_rows_;      // a thread's chunks along the width, and the rows from one to the next
  Value exists_;                   // whether the thread has a group; null: all threads have
  Value first_row_, k_;            // i32: where the thread's first group begins
  Values sources_;                 // index: offset of each part at K = 0
  Values loaded_;                  // chunks; last, unless K is whole blocks, K of the block (i32)
};

}  // namespace

std::unique_ptr<MmaCopies> make_chunk_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared) {
  if (!x.k_contiguous) return std::make_unique<TransposedCopies>(e, kernel, x, shared);
  return std::make_unique<ChunkCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
