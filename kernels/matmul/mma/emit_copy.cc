// Copies a warp-level matmul's operands to shared memory on CUDA (AMD: emit_chunks.cc, emit_words.cc).
#include <algorithm>

#include "compiler/ptx_mma.h"
#include "compiler/ptx_stream.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

Value select(Emit& e, Value condition, Value x, Value y) {
  return arith::SelectOp::create(e.b, e.loc, condition, x, y);
}

// cp.async of chunks of 16 bytes, in the order of global memory (contiguous along K or along the width). A
// thread copies the same chunk of rows that lie row_step_ apart.
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
    source_ = e.add(x.view.offset, first_);
    if (x.view.lists_rows())
      for (int64_t i = 0; i < count_; ++i)
        rows_.push_back(row_at(e, x.view, e.to_index(e.min(e.add(row_, i * row_step_), e.i32(x.width - 1)))));
    else
      source_ = e.add(source_, e.mul(e.to_index(row_), x.view.row_stride));
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
    Value at = e_.add(source, rows_.empty() ? e_.mul(x_.view.row_stride, i * row_step_) : rows_[i]);
    copy_async(e_, target, pointer_to(e_, x_.view.memory, at), bytes);
  }

  static bool full(Value limit, int64_t size) { return size > 0 && Emit::known(limit) == size; }

  // Bytes of the chunk at element `first` that lie before `limit`. `whole`: `limit` is a multiple of a chunk.
  // `size`: the full range of the chunks (0: unknown). If `limit` equals it, all chunks are whole.
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
  Value exists_;       // whether the thread has rows; null: all threads have
  Value row_;          // i32: the thread's first row
  Value first_;        // index: the chunk's first element
  Value source_;       // index: offset at K = 0, of the first row unless rows are listed
  Values rows_;        // index: offsets of listed rows
  Value width_bytes_;  // not K-contiguous: bytes of the chunk within the width
  Values targets_;     // i32: byte offsets in a stage; only one if the rows are whole swizzle periods apart
};

// Copies element by element through registers, for rows that are not aligned to chunks and for bytes that are
// not K-contiguous; in shared memory all are. A thread moves words of four bytes, adjacent threads adjacent
// memory, and packs the words after all loads are issued. One pointer walks over the block, and loads beyond
// the edge are predicated off: LLVM would keep an address and a mask per element through the loop, up to 130
// registers.
class StagedCopies : public MmaCopies {
 public:
  StagedCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e),
        x_(x),
        shared_(shared),
        word_(4 / x.element_bytes),
        piece_bytes_(x.view.alignment ? std::min(x.view.alignment, x.element_bytes) : x.element_bytes) {
    const int64_t words = x.layout.row_bytes / 4, threads = kernel.threads();
    Value thread = e.to_i32(kernel.thread());
    count_ = std::max<int64_t>(x.width * words / threads, 1);
    if (threads > x.width * words) exists_ = e.less(thread, e.i32(x.width * words));
    const int64_t inner = x.k_contiguous ? words : std::min(threads, x.width);
    Value low = e.rem(thread, e.i32(inner)), high = e.div(thread, e.i32(inner));
    row_ = x.k_contiguous ? high : low, first_word_ = x.k_contiguous ? low : high;
    if (x.k_contiguous)
      row_step_ = threads / words;
    else
      rows_ = std::max<int64_t>(x.width / threads, 1), row_step_ = threads, word_step_ = threads / inner;
    Value row = e.to_index(row_), k = e.mul(e.to_index(first_word_), word_);
    Value first_row = x.view.lists_rows() ? e.idx(0) : e.mul(row, x.view.row_stride);
    first_ =
        e.add(x.view.offset, x.k_contiguous ? e.add(first_row, k) : e.add(row, e.mul(k, x.view.row_stride)));
    Value stride = e.mul(x.view.row_stride, x.element_bytes);
    element_step_ = x.k_contiguous ? nullptr : stride;
    group_step_ = e.mul(stride, x.k_contiguous ? row_step_ : word_step_ * word_);
  }

  void begin(Value k0, Value, int64_t slice, int64_t slices) override {
    if (slice == 0) start(k0);
    for (int64_t i = count_ * slice / slices; i < count_ * (slice + 1) / slices; ++i) load(i);
  }

  void end(Value stage) override {
    const auto store = [&] {
      for (int64_t i = 0; i < count_; ++i) {
        Value row = e_.add(row_, (x_.k_contiguous ? i : i % rows_) * row_step_);
        Value word = e_.add(first_word_, x_.k_contiguous ? 0 : i / rows_ * word_step_);
        Value within = e_.mul(e_.rem(word, e_.i32(4)), 4);
        Value target = e_.add(e_.add(stage, x_.layout.at(e_, row, e_.div(word, e_.i32(4)))), within);
        LLVM::StoreOp::create(e_.b, e_.loc, packed(loaded_[i]), shared_at(e_, shared_, target, x_.place),
                              /*alignment=*/4);
      }
    };
    if (exists_)
      e_.when(exists_, store);
    else
      store();
  }

 private:
  void start(Value k0) {
    loaded_.clear();
    pointer_ = start_ =
        pointer_to(e_, x_.view.memory, e_.add(first_, x_.k_contiguous ? k0 : e_.mul(k0, x_.view.row_stride)));
    Value in_block = e_.to_i32(e_.min(e_.sub(x_.depth, k0), e_.idx(x_.block)));
    Value present = select(e_, e_.less(k0, x_.depth), in_block, e_.i32(0));
    // Signed: the thread's first word may lie beyond K.
    left_ = arith::SubIOp::create(e_.b, e_.loc, present, e_.mul(first_word_, word_));
  }

  // Loads word `i`. K-contiguous: one word in each of count_ rows. Otherwise one word in each of rows_ rows,
  // then the next word of each.
  void load(int64_t i) {
    const int64_t row = x_.k_contiguous ? i : i % rows_, group = x_.k_contiguous ? i : i / rows_;
    if (x_.view.lists_rows()) {
      Value number = e_.to_index(e_.min(e_.add(row_, row * row_step_), e_.i32(x_.width - 1)));
      pointer_ = beyond(start_, e_.mul(row_at(e_, x_.view, number), x_.element_bytes));
    } else if (i > 0 && (x_.k_contiguous || row == 0)) {
      pointer_ = beyond(pointer_, group_step_);
    }
    Value left = left_;
    if (exists_ || Emit::known(x_.limit) != x_.width)
      left = select(e_, e_.less(e_.add(row_, row * row_step_), e_.to_i32(x_.limit)), left_, e_.i32(0));
    Values pieces;
    Value at = pointer_;
    for (int64_t j = 0; j < word_; ++j) {
      if (j > 0 && element_step_) at = beyond(at, element_step_);
      const int64_t offset = (x_.k_contiguous ? j : row * row_step_) * x_.element_bytes;
      const int64_t k = j + (x_.k_contiguous ? 0 : group * word_step_ * word_);
      for (int64_t byte = 0; byte < x_.element_bytes; byte += piece_bytes_)
        pieces.push_back(load_present(e_, at, offset + byte, piece_bytes_, left, k));
    }
    loaded_.push_back(pieces);
  }

  Value beyond(Value pointer, Value bytes) {
    Value step = arith::IndexCastOp::create(e_.b, e_.loc, e_.b.getI64Type(), bytes);
    return LLVM::GEPOp::create(e_.b, e_.loc, pointer.getType(), e_.b.getI8Type(), pointer,
                               ArrayRef<LLVM::GEPArg>{step});
  }

  Value packed(const Values& pieces) {
    if (pieces.size() == 2) return pair_halves(e_, pieces[0], pieces[1], /*second=*/false);
    Value word = pieces[0];
    for (size_t j = 1; j < pieces.size(); ++j) {
      Value v = arith::ShLIOp::create(e_.b, e_.loc, pieces[j], e_.i32(8 * piece_bytes_ * j));
      word = arith::OrIOp::create(e_.b, e_.loc, word, v);
    }
    return word;
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t word_, piece_bytes_;            // elements in a word, bytes in a load
  int64_t count_;                         // words of a thread
  int64_t rows_ = 1;                      // not K-contiguous: rows that each get a word before the next word
  int64_t row_step_ = 0, word_step_ = 0;  // distance between a thread's rows (words)
  Value exists_;                          // whether the thread has words; null: all threads have
  Value row_, first_word_;                // i32: the thread's first row, and its word there
  Value first_;                           // index: offset of the first element at K = 0
  // Bytes (index) to a word's next element (null: adjacent in memory), and to the next group.
  Value element_step_, group_step_;
  // In the current block: its start in the thread's first row (if rows are listed: before any row), the walking
  // pointer, and K left from first_word_ on.
  Value start_, pointer_, left_;
  SmallVector<Values> loaded_;  // i32: the pieces of each word
};

}  // namespace

std::unique_ptr<MmaCopies> make_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared) {
  if (x.instruction.multiplies_codes()) return make_scaled_copies(e, kernel, x, shared);
  if (x.scaled > 0) return make_block_copies(e, kernel, x, shared);
  if (x.instruction.amd())
    return x.chunks ? make_chunk_copies(e, kernel, x, shared) : make_word_copies(e, kernel, x, shared);
  if (x.chunks) return std::make_unique<AsyncCopies>(e, kernel, x, shared);
  return std::make_unique<StagedCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
