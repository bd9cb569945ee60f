// AMD: copies operands whose rows are not aligned to chunks, element by element through registers, to shared
// memory, where they are K-contiguous. A thread moves words of four bytes, adjacent threads adjacent memory,
// and packs the words after all loads are issued.
#include <algorithm>

#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Value select(Emit& e, Value condition, Value x, Value y) {
  return arith::SelectOp::create(e.b, e.loc, condition, x, y);
}

class WordCopies : public MmaCopies {
 public:
  WordCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e), x_(x), shared_(shared), word_(4 / x.element_bytes), last_(e.sub(x.limit, e.idx(1))) {
    const int64_t words = x.layout.row_bytes / 4, threads = kernel.threads();
    Value thread = e.to_i32(kernel.thread());
    count_ = std::max<int64_t>(x.width * words / threads, 1);
    if (threads > x.width * words) exists_ = e.less(thread, e.i32(x.width * words));
    for (int64_t i = 0; i < count_; ++i) {
      Word w;
      if (x.k_contiguous) {
        w.word = e.rem(thread, e.i32(words));
        w.row = e.add(e.div(thread, e.i32(words)), i * (threads / words));
      } else if (threads >= x.width) {
        w.row = e.rem(thread, e.i32(x.width));
        w.word = e.add(e.div(thread, e.i32(x.width)), i * (threads / x.width));
      } else {
        const int64_t rows = x.width / threads;
        w.row = e.add(thread, i % rows * threads);
        w.word = e.i32(i / rows);
      }
      words_.push_back(w);
    }
  }

  void begin(Value k0, Value, int64_t slice, int64_t slices) override {
    if (slice == 0) loaded_.clear();
    const bool whole = x_.whole_blocks;
    if (whole) k0 = x_.existing(e_, k0);
    for (int64_t i = count_ * slice / slices; i < count_ * (slice + 1) / slices; ++i)
      for (int64_t j = 0; j < word_; ++j) {
        if (!loaded_.empty() && loaded_.size() % kLoadsTogether == 0) pin_schedule(e_);
        load(words_[i], j, k0, whole);
      }
    if (whole || slice + 1 < slices) return;
    Value in_block = e_.to_i32(e_.min(e_.sub(x_.depth, k0), e_.idx(x_.block)));
    loaded_.push_back(select(e_, e_.less(k0, x_.depth), in_block, e_.i32(0)));
  }

  void end(Value stage) override {
    const auto store = [&] {
      for (int64_t i = 0; i < count_; ++i) {
        Value chunk = e_.div(words_[i].word, e_.i32(4));
        Value within = e_.mul(e_.rem(words_[i].word, e_.i32(4)), 4);
        Value target = e_.add(e_.add(stage, x_.layout.at(e_, words_[i].row, chunk)), within);
        LLVM::StoreOp::create(e_.b, e_.loc, x_.as_multiplied(e_, packed(i)),
                              shared_at(e_, shared_, target, x_.place),
                              /*alignment=*/4);
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
  struct Word {
    Value row, word;  // i32: row in the tile, and word in the row
  };

  // Loads element `j` of a word. Rows beyond the operand repeat its last row; beyond K an existing element is
  // read.
  void load(const Word& w, int64_t j, Value k0, bool whole) {
    Value row = e_.min(e_.to_index(w.row), last_), in_block = e_.add(e_.mul(e_.to_index(w.word), word_), j);
    Value k = e_.add(k0, in_block);
    const Value& stride = x_.view.row_stride;
    Value at;
    if (x_.k_contiguous) {
      if (!whole) k = e_.min(k, e_.sub(x_.depth, e_.idx(1)));
      at = e_.add(e_.add(x_.view.offset, row_at(e_, x_.view, row)), k);
    } else {
      Value first = e_.add(x_.view.offset, row);
      at = e_.add(e_.add(first, e_.mul(k0, stride)), e_.mul(in_block, stride));
      if (!whole) at = select(e_, e_.less(k, x_.depth), at, first);
    }
    Type type = e_.b.getIntegerType(8 * x_.element_bytes);
    const int64_t alignment = x_.view.alignment ? x_.view.alignment : x_.element_bytes;
    loaded_.push_back(
        LLVM::LoadOp::create(e_.b, e_.loc, type, pointer_to(e_, x_.view.memory, at), alignment));
  }

  Value packed(int64_t i) {
    Value word;
    for (int64_t j = 0; j < word_; ++j) {
      Value v = loaded_[i * word_ + j];
      if (x_.element_bytes < 4) v = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), v);
      if (j > 0) v = arith::ShLIOp::create(e_.b, e_.loc, v, e_.i32(j * 8 * x_.element_bytes));
      word = word ? arith::OrIOp::create(e_.b, e_.loc, word, v).getResult() : v;
    }
    return x_.whole_blocks ? word : present(word, words_[i]);
  }

  // Clears the elements beyond K with a mask of the whole word, which is computed here: a condition per
  // element, kept while the loads are in flight, spills scalar registers on gfx90a.
  Value present(Value word, const Word& w) {
    Value left = arith::SubIOp::create(e_.b, e_.loc, loaded_.back(), e_.mul(w.word, word_));
    left = arith::MaxSIOp::create(e_.b, e_.loc, left, e_.i32(0));
    left = arith::MinSIOp::create(e_.b, e_.loc, left, e_.i32(word_));
    // Two shifts, because a shift by 32 is undefined.
    Value half = arith::SubIOp::create(e_.b, e_.loc, e_.i32(16), e_.mul(left, 16 / word_));
    Value mask = e_.i32(-1);
    for (int step = 0; step < 2; ++step) mask = arith::ShRUIOp::create(e_.b, e_.loc, mask, half);
    return arith::AndIOp::create(e_.b, e_.loc, word, mask);
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t word_, count_;  // elements in a word, words of a thread
  Value last_;            // index: the last existing row
  Value exists_;          // whether the thread has words; null: all threads have
  SmallVector<Word> words_;
  Values loaded_;  // elements; last, unless K is whole blocks, K of the block (i32)
};

}  // namespace

std::unique_ptr<MmaCopies> make_word_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                            Value shared) {
  return std::make_unique<WordCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
