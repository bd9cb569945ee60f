// CUDA: loads a warp's fragments for mma.sync from shared memory, with ldmatrix where possible.
#include "compiler/ptx_mma.h"
#include "kernels/matmul/mma/emit_operand.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kStepBytes = kMmaSyncInstruction.step_bytes();

class MatrixFragments : public MmaFragments {
 public:
  MatrixFragments(Emit& e, const MmaOperand& x, Value shared, Value first, Value lane);
  Values load(Value stage, int64_t step) override;

 private:
  Values load_matrices_at(Value stage, int64_t step);
  Values load_elements_at(Value stage, int64_t step);

  Emit& e_;
  const MmaOperand& x_;
  Value shared_;
  // The lane's byte offsets (i32): one per step if K-contiguous, else one per group of the width.
  Values lanes_;
};

MatrixFragments::MatrixFragments(Emit& e, const MmaOperand& x, Value shared, Value first, Value lane)
    : e_(e), x_(x), shared_(shared) {
  const SwizzledRows& layout = x.layout;
  if (layout.element_wise) {
    // Register r of a 16-row fragment of A: k = lane % 4 + r / 2 * 4, row = lane / 4 + r % 2 * 8. Of an
    // 8-column fragment of B: k = lane % 4 + r * 4, column = lane / 4. The swizzle depends on k % 4, which a
    // lane's registers share.
    Value k = e.rem(lane, e.i32(4)), within = e.mul(e.div(lane, e.i32(4)), 4);
    for (int64_t group = 0; group < x.warp_width; group += 8) {
      Value chunk = e.div(e.add(first, group), e.i32(4));
      lanes_.push_back(e.add(layout.at(e, k, chunk), within));
    }
    return;
  }
  // ldmatrix loads four 8 x 8 matrices. The second is either the next 8 rows of the first or its next chunk,
  // the third is the other, so that the registers are in mma.sync's order.
  Value low = e.rem(lane, e.i32(16)), high = e.div(lane, e.i32(16));
  const bool rows_first = (x.side == MmaOperand::kA) == x.shared_k_contiguous;
  Value half = rows_first ? high : e.div(low, e.i32(8));
  Value row = rows_first ? low : e.add(e.rem(lane, e.i32(8)), e.mul(high, 8));
  if (x.shared_k_contiguous) {
    Value start = e.mul(e.add(first, row), layout.row_bytes);
    Value chunk = e.mul(exclusive_or(e, half, layout.exchange(e, row)), 16);
    for (int64_t step = 0; step * kStepBytes < layout.row_bytes; ++step)
      lanes_.push_back(e.add(start, exclusive_or(e, chunk, step * kStepBytes)));
  } else {
    for (int64_t group = 0; group < x.warp_width; group += 16) {
      Value chunk = e.add(e.div(e.add(first, group), e.i32(8)), half);
      lanes_.push_back(layout.at(e, row, chunk));
    }
  }
}

Values MatrixFragments::load(Value stage, int64_t step) {
  Values registers = x_.layout.element_wise ? load_elements_at(stage, step) : load_matrices_at(stage, step);
  // mma.sync would truncate f32 to tf32, which doubles the error and biases it towards zero. Round instead.
  if (x_.view.element.isF32())
    for (Value& r : registers) r = round_to_tf32(e_, r);
  return registers;
}

Values MatrixFragments::load_matrices_at(Value stage, int64_t step) {
  Values registers;
  const int64_t depth = kStepBytes / x_.element_bytes, row_bytes = x_.layout.row_bytes;
  for (int64_t group = 0; group < x_.warp_width; group += 16) {
    const bool along_k = x_.shared_k_contiguous;
    Value lane = along_k ? lanes_[step] : lanes_[group / 16];
    const int64_t constant = x_.place + (along_k ? group : step * depth) * row_bytes;
    registers.append(
        load_matrices(e_, shared_at(e_, shared_, e_.add(stage, lane), constant), /*transposed=*/!along_k));
  }
  return registers;
}

Values MatrixFragments::load_elements_at(Value stage, int64_t step) {
  Values registers;
  const auto element = [&](int64_t group, int64_t k) {
    const int64_t constant = x_.place + (step * kStepBytes / 4 + k) * x_.layout.row_bytes;
    Value at = shared_at(e_, shared_, e_.add(stage, lanes_[group]), constant);
    registers.push_back(LLVM::LoadOp::create(e_.b, e_.loc, e_.b.getI32Type(), at, /*alignment=*/4));
  };
  const int64_t groups = x_.side == MmaOperand::kA ? 2 : 1;  // groups of eight in a fragment
  for (int64_t group = 0; group < x_.warp_width / 8; group += groups)
    for (int64_t k : {0, 4})
      for (int64_t i = 0; i < groups; ++i) element(group + i, k);
  return registers;
}

}  // namespace

std::unique_ptr<MmaFragments> make_fragments(Emit& e, const MmaOperand& x, Value shared, Value first,
                                             Value lane) {
  if (x.instruction.amd()) return make_lane_fragments(e, x, shared, first, lane);
  return std::make_unique<MatrixFragments>(e, x, shared, first, lane);
}

}  // namespace lathe::emit
