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

// cp.async of 16-byte chunks, K- or width-contiguous as in memory. A thread copies the same chunk of rows that lie
// row_step_ apart.
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
    for (int64_t i = 0; i < places; ++i)
      targets_.push_back(layout.at(e, e.add(row_, i * row_step_), chunk));
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

  // How many bytes of the chunk that begins at element `first` lie before `limit`; `size` of the chunks' whole range.
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
  Value exists_;         // null: in every thread
  Value row_;            // the first, i32
  Value first_;          // the chunk's first element, index
  Value source_;         // index, at K = 0
  Value width_bytes_;    // width-contiguous: present of the chunk
  Values targets_;       // i32
};

}  // namespace

std::unique_ptr<MmaCopies> make_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared) {
  return std::make_unique<AsyncCopies>(e, kernel, x, shared);
}

}  // namespace lathe::emit
