// A and B in blocks whose codes the matrix instruction multiplies as they are stored, or on gfx942 as FNUZ. They go to
// shared memory in chunks of 16 bytes, with the scales of their blocks behind them. Instructions of gfx950 apply scales
// of a byte; f32 scales of 128 multiply sums.
//
// gfx950: lane group g of a step has chunk g of a row with 4-bit elements. With 8-bit elements it has chunks g and
// groups + g, which belong to blocks g / 2 and (groups + g) / 2. In both cases it gives the scale of block g of the
// step (composable_kernel's test/mx_mfma_op lists this mapping as measured on hardware).
#include <algorithm>

#include "kernels/matmul/emit_blocks.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kChunk = 16;  // bytes

// Byte offset, from the operand's scales, of the scale of row `row` of the tile for block `block` of the stage (i32).
Value scale_at(Emit& e, const MmaOperand& x, Value row, Value block) {
  Value first = e.mul(block, x.width);
  if (x.scaled > 0) return e.mul(e.add(first, row), 4);
  const int64_t rows = x.instruction.rows, count = x.scales_together();
  Value fragment = e.div(row, e.i32(rows)), in_word = e.rem(fragment, e.i32(count));
  Value word = e.add(e.mul(e.div(fragment, e.i32(count)), rows), e.rem(row, e.i32(rows)));
  return e.add(first, e.add(e.mul(word, count), in_word));
}

class ScaledCopies : public MmaCopies {
 public:
  ScaledCopies(Emit& e, const GpuKernel& kernel, const MmaOperand& x, Value shared)
      : e_(e),
        x_(x),
        shared_(shared),
        alignment_(kernel.alignment() == Alignment::k16 ? kChunk : 1),
        scale_alignment_(x.scaled > 0 && kernel.alignment() != Alignment::kByte ? 4 : 1),
        scaled_(block_elements(x.view.blocks)),
        elements_of_byte_(scaled_ / static_cast<int64_t>(size_of(x.view.blocks))),
        codes_(part(kernel, x.layout.chunks())),
        scales_(part(kernel, std::max<int64_t>(x.block / scaled_, 1))) {
    for (Value row : codes_.rows) {
      targets_.push_back(x.layout.at(e, row, codes_.along_k));
      sources_.push_back(line_of(row).byte);
    }
    for (Value row : scales_.rows) {
      scale_targets_.push_back(scale_at(e, x, row, scales_.along_k));
      scale_sources_.push_back(line_of(row).scales);
    }
  }

  // Beyond K the first chunk of the row is read, and its first scale: if that is NaN, so is the row's sum.
  void begin(Value k0, Value, int64_t, int64_t) override {
    loaded_.clear();
    Value byte = e_.div(existing(k0, codes_, kChunk * elements_of_byte_), e_.idx(elements_of_byte_));
    for (Value source : sources_)
      loaded_.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.vec(4, e_.b.getI32Type()),
                                             pointer_to(e_, x_.view.memory, e_.add(source, byte)),
                                             static_cast<unsigned>(alignment_)));
    Value k = existing(k0, scales_, scaled_);
    for (Value source : scale_sources_) {
      Value scale = LLVM::LoadOp::create(e_.b, e_.loc, scale_type(),
                                         x_.scales.at(e_, x_.view.blocks, source, k), scale_alignment_);
      if (!are_floats()) scale = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), scale);
      loaded_.push_back(scale);
    }
    loaded_.push_back(k0);
  }

  void end(Value stage) override {
    ArrayRef<Value> loaded(loaded_);
    when(codes_, [&] {
      Value exists = e_.less(first_k(loaded.back(), codes_, kChunk * elements_of_byte_), x_.depth);
      for (auto [value, target] : llvm::zip(loaded, targets_)) {
        Value kept = value;
        if (!x_.whole_blocks)
          kept = arith::SelectOp::create(e_.b, e_.loc, exists, value, e_.zero(value.getType()));
        LLVM::StoreOp::create(e_.b, e_.loc, x_.as_multiplied(e_, kept),
                              shared_at(e_, shared_, e_.add(stage, target), x_.place), kChunk);
      }
    });
    when(scales_, [&] {
      Value exists = e_.less(first_k(loaded.back(), scales_, scaled_), x_.depth);
      for (auto [value, target] : llvm::zip(loaded.drop_front(targets_.size()), scale_targets_)) {
        Value kept = value;
        if (!are_floats())
          kept = arith::TruncIOp::create(e_.b, e_.loc, e_.b.getI8Type(), value);
        else if (!x_.whole_blocks)  // an infinity would make NaN of the codes, which are 0
          kept = arith::SelectOp::create(e_.b, e_.loc, exists, value, e_.zero(value.getType()));
        LLVM::StoreOp::create(e_.b, e_.loc, kept,
                              shared_at(e_, shared_, e_.add(stage, target), x_.scales_place),
                              are_floats() ? 4 : 1);
      }
    });
  }

  Values carried() const override { return loaded_; }
  void carry(ArrayRef<Value> loaded) override { loaded_.assign(loaded.begin(), loaded.end()); }

 private:
  // A thread's share of what a stage has: the same piece along K of several rows.
  struct Part {
    Value along_k;  // i32: the number of the piece
    Value exists;   // whether the thread has a share; null: all threads have
    Values rows;    // i32
  };

  Part part(const GpuKernel& kernel, int64_t in_row) {
    const int64_t threads = kernel.threads(), all = x_.width * in_row;
    Value thread = e_.to_i32(kernel.thread());
    Part p;
    p.along_k = e_.rem(thread, e_.i32(in_row));
    if (threads > all) p.exists = e_.less(thread, e_.i32(all));
    for (int64_t i = 0; i < std::max<int64_t>(all / threads, 1); ++i)
      p.rows.push_back(e_.add(e_.div(thread, e_.i32(in_row)), i * (threads / in_row)));
    return p;
  }
  bool are_floats() const { return x_.scaled > 0; }
  Type scale_type() { return are_floats() ? e_.f32() : Type(e_.b.getI8Type()); }
  // Rows beyond the operand repeat its last row.
  GpuBlockLine line_of(Value row) {
    Value last = e_.sub(x_.limit, e_.idx(1));
    return gpu_block_line(e_, x_.view, x_.scales, e_.min(e_.to_index(row), last));
  }
  Value first_k(Value k0, const Part& p, int64_t elements) {
    return e_.add(k0, e_.to_index(e_.mul(p.along_k, elements)));
  }
  Value existing(Value k0, const Part& p, int64_t elements) {
    if (x_.whole_blocks) return first_k(x_.existing(e_, k0), p, elements);
    Value k = first_k(k0, p, elements);
    return arith::SelectOp::create(e_.b, e_.loc, e_.less(k, x_.depth), k, e_.idx(0));
  }
  void when(const Part& p, llvm::function_ref<void()> then) {
    if (p.exists)
      e_.when(p.exists, then);
    else
      then();
  }

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  int64_t alignment_;
  unsigned scale_alignment_;
  int64_t scaled_, elements_of_byte_;  // elements of a scale, and in a byte
  Part codes_, scales_;
  Values sources_, scale_sources_;  // index: the first byte of each row, and its first scale
  Values targets_, scale_targets_;  // i32: byte offsets in a stage
  Values loaded_;                   // chunks, scales, and last the first k of the stage
};

class ScaleBytes : public MmaFragments {
 public:
  ScaleBytes(Emit& e, const MmaOperand& x, Value shared, Value first, Value lane)
      : e_(e), x_(x), shared_(shared) {
    const MatrixInstruction& t = x.instruction;
    Value row = e.rem(lane, e.i32(t.rows)), group = e.div(lane, e.i32(t.rows));
    place_ = e.add(e.add(e.mul(group, x.width), first), e.mul(row, x.scales_together()));
  }

  Values load(Value stage, int64_t step) override {
    const MatrixInstruction& t = x_.instruction;
    const int64_t count = x_.scales_together(), width = count * t.rows;
    Type type = e_.b.getIntegerType(static_cast<unsigned>(8 * count));
    Values words;
    for (int64_t row = 0; row < x_.warp_width; row += width) {
      Value at =
          shared_at(e_, shared_, e_.add(stage, place_), x_.scales_place + step * t.groups * x_.width + row);
      Value word = LLVM::LoadOp::create(e_.b, e_.loc, type, at, static_cast<unsigned>(count));
      if (count < 4) word = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), word);
      words.push_back(word);
    }
    return words;
  }

 private:
  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  Value place_;  // i32: the lane's first scale, from the scales of a stage
};

}  // namespace

std::unique_ptr<MmaCopies> make_scaled_copies(Emit& e, const GpuKernel& kernel, const MmaOperand& x,
                                              Value shared) {
  return std::make_unique<ScaledCopies>(e, kernel, x, shared);
}
std::unique_ptr<MmaFragments> make_scale_bytes(Emit& e, const MmaOperand& x, Value shared, Value first,
                                               Value lane) {
  return std::make_unique<ScaleBytes>(e, x, shared, first, lane);
}

Value multiply_scaled_lanes(Emit& e, const MatrixInstruction& t, const ScaledFragments& a, int64_t i,
                            const ScaledFragments& b, int64_t j, Value sums) {
  // B's columns are the instruction's rows (MatrixInstruction::rows).
  const Values operands = {b.codes(j),        a.codes(i),        sums,
                           e.i32(b.format()), e.i32(a.format()), e.i32(b.byte(j)),
                           b.scale(j),        e.i32(a.byte(i)),  a.scale(i)};
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, sums.getType(), e.b.getStringAttr(t.name), operands)
      .getResult(0);
}

}  // namespace lathe::emit
