// How a warp-level matmul's operands get into shared memory.
#include <algorithm>

#include "compiler/ptx_mma.h"
#include "kernels/matmul/emit_mma_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Value select(Emit& e, Value condition, Value x, Value y) {
  return arith::SelectOp::create(e.b, e.loc, condition, x, y);
}

// cp.async of 16-byte chunks, K- or width-contiguous as in memory. A thread copies the same chunk of rows
// that lie row_step_ apart.
class AsyncCopies : public MmaCopies {
 public:
  AsyncCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e), x_(x), shared_(shared) {
    const SwizzledRows& layout = x.layout;
    const int64_t threads = kernel.threads(), chunks = layout.chunks();
    Value thread = e.to_i32(kernel.thread());
    Value chunk = e.rem(thread, e.i32(chunks));
    row_step_ = threads / chunks;
    count_ = (layout.rows + row_step_ - 1) / row_step_;
    row_ = e.div(thread, e.i32(chunks));
    if (row_step_ > layout.rows) exists_ = e.less(row_, e.i32(layout.rows));
    first_ = e.mul(e.to_index(chunk), x.chunk_elements());
    source_ = e.add(e.add(x.view.offset, first_), e.mul(e.to_index(row_), x.view.row_stride));
    if (!x.k_contiguous) width_bytes_ = present(first_, x.limit, x.whole_width, x.width);
    const int64_t places = row_step_ % SwizzledRows::kPeriod == 0 ? 1 : count_;
    for (int64_t i = 0; i < places; ++i) targets_.push_back(layout.at(e, e.add(row_, i * row_step_), chunk));
  }

  void begin(Value k0, Value stage, int64_t slice, int64_t slices) override {
    const auto copy = [&] {
      Value bytes = width_bytes_;
      if (x_.k_contiguous) bytes = present(e_.add(k0, first_), x_.depth, x_.whole_depth, 0);
      Value at = e_.add(source_, x_.k_contiguous ? k0 : e_.mul(k0, x_.view.row_stride));
      for (int64_t i = count_ * slice / slices; i < count_ * (slice + 1) / slices; ++i)
        copy_row(k0, stage, at, bytes, i);
    };
    if (exists_)
      e_.when(exists_, copy);
    else
      copy();
  }
  void end(Value) override {}

 private:
  void copy_row(Value k0, Value stage, Value source, Value bytes, int64_t i) {
    Value row = e_.to_index(e_.add(row_, i * row_step_));
    Value exists = x_.k_contiguous ? e_.less(row, x_.limit) : e_.less(e_.add(k0, row), x_.depth);
    if (!x_.k_contiguous || !full(x_.limit, x_.width)) bytes = select(e_, exists, bytes, e_.i32(0));
    const bool shared_target = targets_.size() == 1;
    Value target = shared_at(e_, shared_, e_.add(stage, targets_[shared_target ? 0 : i]),
                             x_.place + (shared_target ? i * row_step_ * x_.layout.row_bytes : 0));
    Value at = e_.add(source, e_.mul(x_.view.row_stride, i * row_step_));
    copy_async(e_, target, pointer_to(e_, x_.view.memory, at), bytes);
  }

  static bool full(Value limit, int64_t size) { return size > 0 && Emit::known(limit) == size; }

  // How many bytes of the chunk that begins at element `first` lie before `limit`; `size` of the chunks'
  // whole range.
  Value present(Value first, Value limit, bool whole, int64_t size) {
    if (full(limit, size)) return e_.i32(16);
    Value bytes = e_.i32(16);
    if (!whole) {
      Value elements = e_.min(e_.sub(limit, first), e_.idx(x_.chunk_elements()));
      bytes = e_.mul(e_.to_i32(elements), x_.element_bytes);
    }
    return select(e_, e_.less(first, limit), bytes, e_.i32(0));
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t row_step_, count_;
  Value exists_;       // null: in every thread
  Value row_;          // the first, i32
  Value first_;        // the chunk's first element, index
  Value source_;       // index, at K = 0
  Value width_bytes_;  // width-contiguous: present of the chunk
  Values targets_;     // i32
};

// Element by element through registers, for operands whose rows are not aligned to chunks and for bytes that
// do not lie along K: in shared memory all lie along K. A thread moves words of four bytes, neighbours in
// memory falling to neighbouring threads; the words are put together only when all elements have been asked
// for.
class StagedCopies : public MmaCopies {
 public:
  StagedCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
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
    // Where K is whole blocks, a block beyond it may hold anything: the last one again.
    const std::optional<int64_t> depth = Emit::known(x_.depth);
    const bool whole = depth && *depth % x_.block == 0;
    if (whole) k0 = e_.min(k0, e_.idx(*depth - x_.block));
    for (int64_t i = count_ * slice / slices; i < count_ * (slice + 1) / slices; ++i)
      for (int64_t j = 0; j < word_; ++j) load(words_[i], j, k0, whole);
  }

  void end(Value stage) override {
    const auto store = [&] {
      for (int64_t i = 0; i < count_; ++i) {
        Value chunk = e_.div(words_[i].word, e_.i32(4));
        Value within = e_.mul(e_.rem(words_[i].word, e_.i32(4)), 4);
        Value target = e_.add(e_.add(stage, x_.layout.at(e_, words_[i].row, chunk)), within);
        LLVM::StoreOp::create(e_.b, e_.loc, packed(i), shared_at(e_, shared_, target, x_.place),
                              /*alignment=*/4);
      }
    };
    if (exists_)
      e_.when(exists_, store);
    else
      store();
  }

 private:
  struct Word {
    Value row, word;  // i32: of the part of the tile, and of the row
  };

  // Element `j` of a word. Rows beyond the operand repeat its last one; K beyond it reads as zero.
  void load(const Word& w, int64_t j, Value k0, bool whole) {
    Value row = e_.min(e_.to_index(w.row), last_), in_block = e_.add(e_.mul(e_.to_index(w.word), word_), j);
    Value k = e_.add(k0, in_block), inside = e_.less(k, x_.depth);
    const Value& stride = x_.view.row_stride;
    Value at;
    if (x_.k_contiguous) {
      if (!whole) k = e_.min(k, e_.sub(x_.depth, e_.idx(1)));
      at = e_.add(e_.add(x_.view.offset, e_.mul(row, stride)), k);
    } else {
      Value first = e_.add(x_.view.offset, row);
      at = e_.add(e_.add(first, e_.mul(k0, stride)), e_.mul(in_block, stride));
      if (!whole) at = select(e_, inside, at, first);
    }
    Type type = e_.b.getIntegerType(8 * x_.element_bytes);
    const int64_t alignment = x_.view.alignment ? x_.view.alignment : x_.element_bytes;
    Value v = LLVM::LoadOp::create(e_.b, e_.loc, type, pointer_to(e_, x_.view.memory, at), alignment);
    loaded_.push_back(whole ? v : select(e_, inside, v, e_.constant(type, 0)));
  }

  Value packed(int64_t i) {
    Value word;
    for (int64_t j = 0; j < word_; ++j) {
      Value v = loaded_[i * word_ + j];
      if (x_.element_bytes < 4) v = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), v);
      if (j > 0) v = arith::ShLIOp::create(e_.b, e_.loc, v, e_.i32(j * 8 * x_.element_bytes));
      word = word ? arith::OrIOp::create(e_.b, e_.loc, word, v).getResult() : v;
    }
    return word;
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t word_, count_;  // elements of a word, words of a thread
  Value last_;            // the last row that exists
  Value exists_;          // null: in every thread
  SmallVector<Word> words_;
  Values loaded_;
};

}  // namespace

std::unique_ptr<MmaCopies> make_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared) {
  if (x.instruction.amd())
    return x.chunks ? make_chunk_copies(e, kernel, x, shared) : make_word_copies(e, kernel, x, shared);
  if (x.chunks) return std::make_unique<AsyncCopies>(e, kernel, x, shared);
  return std::make_unique<StagedCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
