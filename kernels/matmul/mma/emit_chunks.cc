// AMD: chunks of 16 aligned bytes, K-contiguous as in memory, on their way to shared memory through
// registers.
#include <algorithm>

#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// A thread copies the same chunk of rows that lie row_step_ apart. Rows beyond the operand repeat its last
// one.
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
      Value source = e.mul(e.min(e.to_index(at), last), x.view.row_stride);
      sources_.push_back(e.add(e.add(x.view.offset, source), first_));
      targets_.push_back(layout.at(e, at, chunk));
    }
  }

  // An aligned chunk of which one element exists lies in a page that exists; of another, the row's first is
  // read.
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

  // Ones in the first `bytes` of a chunk. Put on where chunks are stored: at the load it would wait for it.
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
  Value exists_;    // null: in every thread
  Value first_;     // the chunk's first element, index
  Values sources_;  // index, at K = 0
  Values targets_;  // i32, in a stage
  Values loaded_;   // and at the end, unless K is whole blocks, how many bytes of each exist (i32)
};

// Contiguous along the width in memory. A thread reads one chunk of several neighbours along K and stores
// what they have of each row (column of B) together. Chunks beyond the width repeat the first.
class TransposedCopies : public MmaCopies {
 public:
  TransposedCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e), x_(x), shared_(shared), elements_(x.chunk_elements()) {
    const int64_t threads = kernel.threads(), chunks = x.width / elements_;
    // As many neighbours as leave every thread some, of 4 to 16 bytes.
    neighbours_ = elements_;
    while (neighbours_ * x.element_bytes > 4 && chunks * (x.block / neighbours_) < threads) neighbours_ /= 2;
    Value thread = e.to_i32(kernel.thread());
    Value chunk = e.rem(thread, e.i32(chunks)), group = e.div(thread, e.i32(chunks));
    const int64_t groups = x.block / neighbours_, step = std::max<int64_t>(threads / chunks, 1);
    // Tiles wider than a thread's chunk each: several chunks of one group, threads apart.
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
    const bool inside = whole && !exists_;  // threads without a group are beyond the block
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

  // Element `row` of as many neighbours as a word holds. In words, not in elements: 8- and 16-bit vectors
  // come out as 16-bit shifts, one by one, words as permutations of bytes.
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
  int64_t elements_, neighbours_;  // of a chunk; chunks along K that are stored together
  int64_t count_, group_step_;     // a thread's groups of those, and from one to its next
  int64_t parts_, part_rows_;      // chunks of a group along the width, and rows from one to the next
  Value exists_;                   // null: in every thread
  Value first_row_, k_;            // i32: of the thread's first group
  Values sources_;                 // index, at K = 0, of each part
  Values loaded_;  // and at the end, unless K is whole blocks, how much of the block's K exists (i32)
};

}  // namespace

std::unique_ptr<MmaCopies> make_chunk_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                             Value shared) {
  if (!x.k_contiguous) return std::make_unique<TransposedCopies>(e, kernel, x, shared);
  return std::make_unique<ChunkCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
