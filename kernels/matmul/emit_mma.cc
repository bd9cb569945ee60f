// One workgroup computes one tile with warp-level tensor cores (mma.sync). Blocks of K pass through `stages` buffers in
// shared memory: while one is multiplied, copies of the next stages - 1 are under way. Each warp sums register_m x
// register_n of the tile, an mma's worth of K at a time, in ascending order whatever the tile; the registers for the
// next step are loaded while this one's products are summed.
#include "compiler/ptx_mma.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/emit_mma_operand.h"
#include "kernels/matmul/emit_mma_store.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class MmaTile {
 public:
  MmaTile(Emit& e, GpuKernel& kernel, TileProgram& p, Value shared)
      : e_(e),
        p_(p),
        kernel_(kernel),
        warp_(e, kernel),
        a_(MmaOperand::of(kernel, p, MmaOperand::kA, 0)),
        b_(MmaOperand::of(kernel, p, MmaOperand::kB, a_.bytes())),
        stage_bytes_(a_.bytes() + b_.bytes()),
        stages_(kernel.config().getStages()),
        steps_(kernel.config().getTileK() * a_.element_bytes / kMmaDepthBytes),
        a_copies_(make_copies(e, kernel, a_, shared)),
        b_copies_(make_copies(e, kernel, b_, shared)),
        a_fragments_(e, a_, shared, warp_.first_row, warp_.lane),
        b_fragments_(e, b_, shared, warp_.first_column, warp_.lane) {}

  // The warp's sums, four registers for each 16 x 8 of its part, row by row.
  Values emit() {
    for (int64_t stage = 0; stage < stages_ - 1; ++stage) {
      Value at = e_.i32(stage * stage_bytes_);
      begin_copies(e_.idx(stage * kernel_.config().getTileK()), at, 0, 1);
      end_copies(at);
    }
    wait();
    const MmaWarp& w = warp_;
    Values carried(w.fragment_rows * w.fragment_columns * 4, zero());
    const size_t sums = carried.size();
    append(carried, fragments(e_.i32(0), 0));
    carried.push_back(e_.i32(0));                            // the stage that is read
    carried.push_back(e_.i32((stages_ - 1) * stage_bytes_));  // and the one that is written
    const int64_t block = kernel_.config().getTileK();
    carried = e_.loop(e_.idx(0), p_.depth, block, carried, [&](Value k0, const Values& in) {
      ArrayRef<Value> state(in);
      Values next(state.take_front(sums)), registers(state.drop_front(sums).drop_back(2));
      Value read = state[state.size() - 2], write = state.back();
      multiply_block(e_.add(k0, (stages_ - 1) * block), read, write, next, registers);
      append(next, registers);
      next.push_back(following(read));
      next.push_back(following(write));
      return next;
    });
    wait_copies(e_, 0);
    kernel_.barrier();
    carried.truncate(sums);
    return carried;
  }

  const MmaWarp& warp() const { return warp_; }
  int64_t shared_bytes() const { return stages_ * stage_bytes_; }

 private:
  static void append(Values& to, const Values& from) { to.append(from.begin(), from.end()); }

  Value zero() {
    if (a_.view.element.isInteger()) return e_.i32(0);
    return e_.constant_f32(0);
  }
  void begin_copies(Value k0, Value stage, int64_t slice, int64_t slices) {
    a_copies_->begin(k0, stage, slice, slices);
    b_copies_->begin(k0, stage, slice, slices);
  }
  void end_copies(Value stage) {
    a_copies_->end(stage);
    b_copies_->end(stage);
    commit_copies(e_);
  }
  // The block after the one that is read is there, and nobody reads the one before it any more.
  void wait() {
    wait_copies(e_, stages_ - 2);
    kernel_.barrier();
  }
  Value following(Value stage) {
    Value next = e_.add(stage, stage_bytes_), end = e_.i32(stages_ * stage_bytes_);
    return arith::SelectOp::create(e_.b, e_.loc, e_.equal(next, end), e_.i32(0), next);
  }
  Values fragments(Value stage, int64_t step) {
    Values registers = a_fragments_.load(stage, step);
    append(registers, b_fragments_.load(stage, step));
    return registers;
  }

  // Adds the products of the block in stage `read`, whose first step's registers are loaded, to `sums`; copies the block
  // at `k0` to stage `write`; leaves the next block's first registers.
  void multiply_block(Value k0, Value read, Value write, Values& sums, Values& registers) {
    const int64_t slices = std::max<int64_t>(steps_ - 1, 1);
    for (int64_t step = 0; step < steps_; ++step) {
      if (step < slices) begin_copies(k0, write, step, slices);
      Values next;
      if (step + 1 < steps_) {
        next = fragments(read, step + 1);
      } else {
        end_copies(write);
        wait();
        next = fragments(following(read), 0);
      }
      multiply(sums, registers);
      registers = next;
    }
  }

  void multiply(Values& sums, const Values& registers) {
    ArrayRef<Value> a = ArrayRef(registers).take_front(warp_.fragment_rows * 4);
    ArrayRef<Value> b = ArrayRef(registers).drop_front(warp_.fragment_rows * 4);
    for (int64_t i = 0; i < warp_.fragment_rows; ++i)
      for (int64_t j = 0; j < warp_.fragment_columns; ++j) {
        const size_t at = (i * warp_.fragment_columns + j) * 4;
        Values sum = multiply_matrices(e_, a_.view.element, a.slice(i * 4, 4), b.slice(j * 2, 2),
                                       ArrayRef(sums).slice(at, 4));
        llvm::copy(sum, sums.begin() + at);
      }
  }

  Emit& e_;
  TileProgram& p_;
  GpuKernel& kernel_;
  MmaWarp warp_;
  MmaOperand a_, b_;
  int64_t stage_bytes_, stages_, steps_;
  std::unique_ptr<MmaCopies> a_copies_, b_copies_;
  MmaFragments a_fragments_, b_fragments_;
};

LogicalResult check(GpuKernel& kernel, TileProgram& p) {
  ir::KernelConfigAttr c = kernel.config();
  const auto refuse = [&](const char* why) {
    return p.contraction.emitError("kernel_config: matmul kernel 'mma' ") << why;
  };
  if (c.getRegisterM() < 1 || c.getRegisterN() < 1 || c.getRegisterM() % 16 != 0 || c.getRegisterN() % 16 != 0)
    return refuse("multiplies 16 x 16 of a warp's register_m x register_n");
  if (c.getTileM() % c.getRegisterM() != 0 || c.getTileN() % c.getRegisterN() != 0 ||
      c.getTileM() / c.getRegisterM() * (c.getTileN() / c.getRegisterN()) * 32 != c.getThreads())
    return refuse("needs register tiles of all warps that make up the tile");
  const int64_t bytes = p.views.find(p.contraction.getDpsInputs()[0])->second.element.getIntOrFloatBitWidth() / 8;
  const int64_t row = c.getTileK() * bytes;
  if (row < kMmaDepthBytes || !llvm::isPowerOf2_64(row)) return refuse("needs tile_k of 2^i * 32 bytes");
  if (!llvm::isPowerOf2_64(c.getTileM()) || !llvm::isPowerOf2_64(c.getTileN()) || row / 16 > c.getThreads())
    return refuse("needs a tile of powers of two");
  if (c.getStages() < 2) return refuse("has two stages and more");
  return success();
}

}  // namespace

LogicalResult emit_mma(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  GridPosition block = step.block(e);
  FailureOr<TileProgram> program = step.at(e, block);
  if (failed(program) || failed(check(kernel, *program))) return failure();
  ir::KernelConfigAttr c = kernel.config();
  const View& view = program->views.find(program->contraction.getDpsInputs()[0])->second;
  const int64_t stages = c.getStages() * (c.getTileM() + c.getTileN()) * c.getTileK() *
                         view.element.getIntOrFloatBitWidth() / 8;
  const int64_t bytes = std::max(stages, MmaStore::least_shared_bytes(c));
  Value shared = kernel.dynamic_shared(bytes);
  // Told nothing, ptxas spills a register or two of some tiles so that one more workgroup fits a unit.
  kernel.facts.function_attributes.push_back({"nvvm.minctasm", "1"});
  kernel.facts.ptx = least_ptx_of_mma(view.element);
  MmaTile tile(e, kernel, *program, shared);
  Values sums = tile.emit();
  return MmaStore(e, kernel, step, *program, block).store(tile.warp(), sums, shared, bytes);
}

}  // namespace lathe::emit
