// One workgroup computes one tile with its warps' matrix instructions (mma.sync, MFMA, WMMA). Blocks of K
// pass through `stages` buffers in shared memory. CUDA: while one block is multiplied, cp.async copies of the
// next stages - 1 are in flight. AMD: while one block is multiplied, the next moves from registers to the
// other buffer, and the one after that is loaded into registers. Each warp accumulates register_m x
// register_n of the tile, in ascending order of K whatever the tile; it loads the next step's fragments while
// it multiplies this step's.
#include "compiler/ptx_mma.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/mma/emit_operand.h"
#include "kernels/matmul/mma/emit_products.h"
#include "kernels/matmul/mma/emit_store.h"
#include "kernels/matmul/mma/emit_ukernel.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class MmaTile {
 public:
  // `shared`: the stages, an !llvm.ptr<3>.
  MmaTile(Emit& e, GpuKernel& kernel, const GpuStep& step, const MmaShape& shape, TileProgram& p,
          const MmaWarp& warp, Value shared)
      : e_(e),
        p_(p),
        kernel_(kernel),
        shape_(shape),
        shared_(shared),
        warp_(warp),
        a_(MmaOperand::of(e, step, shape, p, MmaOperand::kA)),
        b_(MmaOperand::of(e, step, shape, p, MmaOperand::kB)),
        products_(e, shape, warp_, a_, b_),
        steps_(shape.steps()),
        a_copies_(make_copies(e, kernel, a_, shared_)),
        b_copies_(make_copies(e, kernel, b_, shared_)),
        a_fragments_(make_fragments(e, a_, shared_, warp_.first_row, warp_.lane)),
        b_fragments_(make_fragments(e, b_, shared_, warp_.first_column, warp_.lane)),
        scales_(make_scales(b_, warp_.first_column)),
        row_scales_(make_scales(a_, warp_.first_row)) {}

  // The warp's accumulators: MatrixInstruction::sums registers for each fragment of its part, row by row.
  Values emit() { return shape_.instruction.amd() ? emit_staged() : emit_async(); }

 private:
  Values emit_async() {
    const int64_t last = shape_.stages - 1, block = shape_.tile_k;
    if (row_scales_) a_copies_->begin(e_.idx(0), e_.i32(0), 0, 1);
    if (scales_) b_copies_->begin(e_.idx(0), e_.i32(0), 0, 1);
    for (int64_t stage = 0; stage < last; ++stage) {
      Value at = e_.i32(stage * shape_.stage_bytes());
      begin_copies(e_.idx(stage * block), at, 0, 1);
      end_copies(at);
    }
    wait();
    Values carried(fragments_of_sums() * shape_.instruction.sums(), e_.zero(products_.sum_type()));
    const size_t sums = carried.size();
    append(carried, fragments(e_.i32(0), 0));
    const size_t copies = carried.size(), a_copies = a_copies_->carried().size();
    append(carried, a_copies_->carried());
    append(carried, b_copies_->carried());
    carried.push_back(e_.i32(0));                            // the stage to read
    carried.push_back(e_.i32(last * shape_.stage_bytes()));  // the stage to write
    carried = e_.loop(e_.idx(0), p_.depth, block, carried, [&](Value k0, const Values& in) {
      ArrayRef<Value> state(in);
      Values next(state.take_front(sums)), registers(state.slice(sums, copies - sums));
      a_copies_->carry(state.slice(copies, a_copies));
      b_copies_->carry(state.drop_front(copies + a_copies).drop_back(2));
      Value read = state[state.size() - 2], write = state.back();
      multiply_block(e_.add(k0, last * block), read, write, next, registers);
      append(next, registers);
      append(next, a_copies_->carried());
      append(next, b_copies_->carried());
      next.push_back(following(read));
      next.push_back(following(write));
      return next;
    });
    wait_copies(e_, 0);
    kernel_.barrier();
    carried.truncate(sums);
    return carried;
  }

  // Loop-carried values: accumulators, the fragments of the current block's first step, the copies of the
  // block after it, the stage to read.
  Values emit_staged() {
    const int64_t block = shape_.tile_k, stages = shape_.part_stages();
    begin_copies(e_.idx(0), e_.i32(0), 0, 1);
    end_copies(e_.i32(0));
    begin_copies(e_.idx(block), e_.i32(0), 0, 1);
    kernel_.barrier();
    VectorType vector = e_.vec(shape_.instruction.sums(), products_.sum_type());
    Values carried(fragments_of_sums(), e_.zero(vector));
    const size_t sums = carried.size();
    // With one step, the fragments of the next stage would be copied to the registers of this one's.
    const bool ahead = steps_ > 1 || !shape_.instruction.takes_formats();
    // LLVM would load the fragments of all steps first.
    const bool pins = shape_.adds_parts() || (shape_.has_blocks() && steps_ > 2);
    if (ahead) append(carried, fragments(e_.i32(0), 0));
    const size_t copies = carried.size(), a_copies = a_copies_->carried().size();
    append(carried, a_copies_->carried());
    append(carried, b_copies_->carried());
    carried.push_back(e_.i32(0));
    carried = e_.loop(e_.idx(0), p_.depth, block * stages, carried, [&](Value k0, const Values& in) {
      ArrayRef<Value> state(in), staged = state.drop_front(copies).drop_back(1);
      Values next(state.take_front(sums)), registers(state.slice(sums, copies - sums));
      a_copies_->carry(staged.take_front(a_copies));
      b_copies_->carry(staged.drop_front(a_copies));
      Value read = state.back();
      Values parts(shape_.adds_parts() ? sums : 0, e_.zero(vector)), scales;
      for (int64_t stage = 0; stage < stages; ++stage) {
        Value write = following(read);
        // No warp has read this stage since the last barrier.
        end_copies(write);
        begin_copies(e_.add(k0, (2 + stage) * block), write, 0, 1);
        pin_schedule(e_);
        if (stage + 1 == stages && shape_.adds_parts()) scales = load_scales(read, 0);
        if (!ahead) {
          products_.multiply(next, fragments(read, 0));
          kernel_.barrier();
        }
        for (int64_t step = 0; ahead && step < steps_; ++step) {
          Values following_registers;
          if (step + 1 == steps_) kernel_.barrier();
          following_registers = step + 1 < steps_ ? fragments(read, step + 1) : fragments(write, 0);
          if (step + 1 == steps_) pin_loads(e_);
          products_.multiply(parts.empty() ? next : parts, registers);
          if (pins) pin_schedule(e_);
          registers = following_registers;
        }
        read = write;
      }
      if (!parts.empty()) products_.add_scaled(next, parts, scales);
      append(next, registers);
      append(next, a_copies_->carried());
      append(next, b_copies_->carried());
      next.push_back(read);
      return next;
    });
    kernel_.barrier();
    Values scalars;
    for (Value sum : ArrayRef(carried).take_front(sums))
      for (int64_t i = 0; i < vector.getNumElements(); ++i) {
        Value scalar = LLVM::ExtractElementOp::create(e_.b, e_.loc, sum, e_.i32(i));
        if (shape_.instruction.fnuz_of_ocp)
          scalar = arith::MulFOp::create(e_.b, e_.loc, scalar, e_.constant_f32(4));
        scalars.push_back(scalar);
      }
    return scalars;
  }

  // The scales of an operand in quantised blocks, null for others.
  std::unique_ptr<MmaFragments> make_scales(const MmaOperand& x, Value first) {
    if (shape_.applies_scales()) return make_scale_bytes(e_, x, shared_, first, warp_.lane);
    if (x.scaled == 0) return nullptr;
    return x.side == MmaOperand::kA ? make_row_scales(e_, x, shared_, warp_)
                                    : make_block_scales(e_, x, shared_, warp_);
  }
  int64_t fragments_of_sums() const { return warp_.fragment_rows * warp_.fragment_columns; }
  static void append(Values& to, const Values& from) { to.append(from.begin(), from.end()); }

  // On CUDA blocks are loaded a stage earlier, because decoding them waits for the loads. On AMD A waits too.
  bool loads_early(bool in_blocks) const { return in_blocks && !shape_.instruction.amd(); }
  void begin_copies(Value k0, Value stage, int64_t slice, int64_t slices) {
    const auto begin = [&](MmaCopies& copies, bool in_blocks) {
      if (!loads_early(in_blocks)) return copies.begin(k0, stage, slice, slices);
      if (slice > 0) return;
      copies.end(stage);
      copies.begin(e_.add(k0, shape_.tile_k), stage, 0, 1);
    };
    begin(*a_copies_, shape_.has_a_blocks());
    begin(*b_copies_, shape_.has_blocks());
  }
  void end_copies(Value stage) {
    if (!loads_early(shape_.has_a_blocks())) a_copies_->end(stage);
    if (!loads_early(shape_.has_blocks())) b_copies_->end(stage);
    if (!shape_.instruction.amd()) commit_copies(e_);
  }
  // Waits until the next block is in shared memory and no warp reads the previous one any more.
  void wait() {
    wait_copies(e_, shape_.stages - 2);
    kernel_.barrier();
  }
  Value following(Value stage) {
    Value next = e_.add(stage, shape_.stage_bytes()), end = e_.i32(shape_.stages * shape_.stage_bytes());
    return arith::SelectOp::create(e_.b, e_.loc, e_.equal(next, end), e_.i32(0), next);
  }
  // Of a step, or of all steps with the same scale, and then their scales.
  Values fragments(Value stage, int64_t step) {
    Values registers;
    for (int64_t i = 0; i < shape_.scaled_steps(); ++i) {
      append(registers, a_fragments_->load(stage, step * shape_.scaled_steps() + i));
      append(registers, b_fragments_->load(stage, step * shape_.scaled_steps() + i));
    }
    if (!shape_.adds_parts()) append(registers, load_scales(stage, step));
    return registers;
  }
  Values load_scales(Value stage, int64_t step) {
    Values scales;
    if (scales_) append(scales, scales_->load(stage, step));
    if (row_scales_) append(scales, row_scales_->load(stage, step));
    return scales;
  }

  // Multiplies the block in stage `read`, whose first step's fragments are in `registers`, into `sums`;
  // copies the block at `k0` to stage `write`; leaves the next block's first fragments in `registers`.
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
      products_.multiply(sums, registers);
      registers = next;
    }
  }

  Emit& e_;
  TileProgram& p_;
  GpuKernel& kernel_;
  const MmaShape& shape_;
  Value shared_;
  const MmaWarp& warp_;
  MmaOperand a_, b_;
  MmaProducts products_;
  int64_t steps_;
  std::unique_ptr<MmaCopies> a_copies_, b_copies_;
  std::unique_ptr<MmaFragments> a_fragments_, b_fragments_;
  std::unique_ptr<MmaFragments> scales_;      // B in quantised blocks; else null
  std::unique_ptr<MmaFragments> row_scales_;  // A in quantised blocks; else null
};

Type element_of(TileProgram& p) {
  const View& a = p.views.find(p.contraction.getDpsInputs()[0])->second;
  return a.blocks == DType::kNone ? a.element : Float16Type::get(a.element.getContext());
}
ir::UkernelAttr ukernel_of(TileProgram& p) {
  return p.contraction->getAttrOfType<ir::UkernelAttr>(ir::kUkernelAttr);
}

// "mma" and ukernels use 16 x 16 instructions, "mma32" uses 32 x 32.
LogicalResult choose_instruction(const GpuKernel& kernel, TileProgram& p, MmaShape& shape) {
  if (!kernel.rocm()) return success();
  const DType type = shape.a_blocks == DType::kNone ? dtype_of(element_of(p)) : shape.a_blocks;
  const int64_t edge = kernel.config().kernel() == KernelKind::kMma32 ? 32 : 16;
  const MatrixInstruction* found = find_mma_instruction(
      absl::string_view(kernel.arch().data(), kernel.arch().size()), type, shape.blocks, edge);
  if (!found)
    return p.contraction.emitError("kernel_config: ")
           << kernel.arch() << " has no matrix instruction of " << edge << " x " << edge << " for "
           << name_of(type).data();
  if (found->multiplies_codes()) shape.element_bytes = 1;
  shape.set_instruction(*found);
  return success();
}

MmaShape shape_of(const GpuKernel& kernel, TileProgram& p) {
  MmaShape shape;
  const auto place = [&](const auto& c, int64_t depth) {
    shape.tile_m = c.tile_m, shape.tile_n = c.tile_n, shape.tile_k = depth;
    shape.warp_m = c.register_m, shape.warp_n = c.register_n;
    shape.stages = c.stages;
  };
  if (const auto* ukernel = kernel.config().getConfig().find<MmaUkernelConfig>())
    place(*ukernel, ukernel->stage_k);
  else
    place(kernel.config<MmaConfig>(), kernel.config<MmaConfig>().tile_k);
  shape.element_bytes = element_of(p).getIntOrFloatBitWidth() / 8;
  shape.a_k_contiguous = k_contiguous(p.contraction, 0),
  shape.b_k_contiguous = k_contiguous(p.contraction, 1);
  shape.alignment = kernel.alignment();
  shape.a_blocks = p.views.find(p.contraction.getDpsInputs()[0])->second.blocks;
  shape.blocks = p.views.find(p.contraction.getDpsInputs()[1])->second.blocks;
  return shape;
}

// The tile that a workgroup computes. Launch order goes through bands of `raster` tiles along M, within a
// band along M first, so that workgroups that run together share rows of both operands in L2.
GridPosition place_of(Emit& e, const GpuKernel& kernel, const GpuStep& step) {
  GridPosition block = step.block(e);
  const int64_t raster = LATHE_READ_FIELD(kernel.config().getConfig(), raster, 0);
  if (raster == 0 || step.is_grouped()) return block;
  GridPosition tiles = step.tiles(e);
  Value rows = e.to_i32(tiles.x), columns = e.to_i32(tiles.y);
  Value order = e.add(e.mul(e.to_i32(block.y), rows), e.to_i32(block.x));
  Value band_tiles = e.mul(columns, raster), band = e.div(order, band_tiles);
  Value first = e.mul(band, raster), height = e.min(e.sub(rows, first), e.i32(raster));
  Value within = e.sub(order, e.mul(band, band_tiles));
  block.x = e.to_index(e.add(first, e.rem(within, height)));
  block.y = e.to_index(e.div(within, height));
  return block;
}

}  // namespace

LogicalResult emit_mma(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  GridPosition block = place_of(e, kernel, step);
  FailureOr<TileProgram> program = step.at(e, block);
  if (failed(program)) return failure();
  MmaShape shape = shape_of(kernel, *program);
  if (failed(choose_instruction(kernel, *program, shape))) return failure();
  if (std::string defect = shape.defect(); !defect.empty())
    return program->contraction.emitError("kernel_config: ") << defect;
  if (shape.threads() != kernel.threads())
    return program->contraction.emitError("kernel_config: threads ")
           << kernel.threads() << " do not match " << shape.warps() << " warps";
  ir::UkernelAttr ukernel = ukernel_of(*program);
  // AMD's ukernels need K-contiguous operands; CUDA's need them for bytes only.
  const bool along_k = shape.a_k_contiguous && shape.b_k_contiguous;
  if (ukernel && (!shape.copies_chunks() || (kernel.rocm() && !along_k)))
    return program->contraction.emitError(
        "the ukernel needs rows aligned to 16 bytes and, except for 16-bit types on CUDA, K contiguous");
  if (!kernel.rocm()) {
    // Without this hint ptxas spills a few registers of some tiles to fit one more workgroup on an SM.
    kernel.facts.function_attributes.push_back({"nvvm.minctasm", "1"});
    kernel.facts.ptx = least_ptx_of_mma(element_of(*program));
  }
  Value shared = kernel.dynamic_shared(shape.shared_bytes());
  const MmaWarp warp(e, kernel, shape);
  MmaStore store(e, kernel, step, *program, block);
  return store.store(shape, warp,
                     ukernel ? sums_of_ukernel(e, kernel, shape, *program, ukernel, shared)
                             : MmaTile(e, kernel, step, shape, *program, warp, shared).emit(),
                     shared);
}

}  // namespace lathe::emit
