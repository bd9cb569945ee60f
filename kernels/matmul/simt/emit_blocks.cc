// An operand in quantised blocks. A thread loads runs of elements along K, undecoded, and decodes them when it stores
// them: until then they take fewer registers.
#include "kernels/matmul/emit_pieces.h"
#include "kernels/matmul/simt/emit_stage.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kRun = GpuBlocks::kRun;

class StagedBlocks : public StagedOperand {
 public:
  StagedBlocks(Emit& e, const GpuKernel& kernel, const StagedPart& part)
      : StagedOperand(e, kernel, part),
        blocks_(e, view_, part.scales, alignment_of_rows(kernel.alignment())) {
    for (int64_t i = 0; i * threads_ < width_ * depth_ / kRun; ++i) runs_.push_back(run(kernel.thread(), i));
  }

  Values load(Value k0, Value depth) override {
    Value last = e_.sub(depth, e_.idx(kRun));
    Values all;
    for (const Run& r : runs_) {
      Value k = e_.min(e_.add(k0, r.k), last);
      const Values loaded = blocks_.load(r.line, k);
      all.append(loaded.begin(), loaded.end());
    }
    return all;
  }

  // No element lies beyond the depth, because tile_k divides a block.
  void store(ArrayRef<Value> loaded, Value shared, int64_t offset, Value k0, Value) override {
    const size_t of_run = loaded.size() / runs_.size();
    for (const Run& r : runs_) {
      const auto store = [&] {
        Value decoded = blocks_.decode(loaded.take_front(of_run), e_.add(k0, r.k));
        for (int64_t i = 0; i < kRun; ++i) {
          Value at = e_.add(e_.add(e_.mul(e_.add(r.k, i), stride()), r.row), offset);
          e_.store(vector::ExtractOp::create(e_.b, e_.loc, decoded, ArrayRef<int64_t>{i}), shared, at);
        }
      };
      if (r.exists)
        e_.when(r.exists, store);
      else
        store();
      loaded = loaded.drop_front(of_run);
    }
  }

 private:
  struct Run {
    Value row, k;  // in the tile
    GpuBlockLine line;
    Value exists;  // whether the thread has the run; null: all threads have
  };

  // Adjacent threads get adjacent runs of a line.
  Run run(Value thread, int64_t i) {
    const int64_t in_column = depth_ / kRun;
    Run r;
    if (threads_ % in_column == 0) {  // the same k for every run of the thread
      r.k = e_.mul(e_.rem(thread, e_.idx(in_column)), kRun);
      r.row = e_.add(e_.div(thread, e_.idx(in_column)), i * (threads_ / in_column));
    } else {
      Value number = e_.add(thread, i * threads_);
      r.k = e_.mul(e_.rem(number, e_.idx(in_column)), kRun);
      r.row = e_.div(number, e_.idx(in_column));
    }
    r.line = blocks_.line(e_.min(r.row, last_));
    if ((i + 1) * threads_ > width_ * in_column)
      r.exists = e_.less(e_.add(thread, i * threads_), e_.idx(width_ * in_column));
    return r;
  }

  GpuBlocks blocks_;
  SmallVector<Run> runs_;
};

}  // namespace

bool can_stage_blocks(const SimtConfig& config, DType blocks) {
  return config.tile_k % kRun == 0 && block_elements(blocks) % config.tile_k == 0;
}

std::unique_ptr<StagedOperand> stage_blocks(Emit& e, const GpuKernel& kernel, const StagedPart& part) {
  return std::make_unique<StagedBlocks>(e, kernel, part);
}

}  // namespace lathe::emit
