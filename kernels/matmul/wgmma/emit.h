// Hopper's "wgmma" family. One warp of the last warpgroup (the producer) copies parts of A and B into stages of shared
// memory with TMA; the other warpgroups (the consumers) multiply from there. Each stage has two mbarriers: the
// producer's copies complete "full", and the consumers release the stage with "empty". This header has what the parts
// of the emitter share.
#pragma once

#include "compiler/ptx_hopper.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/emit_patch.h"
#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/wgmma/shape.h"

namespace lathe::emit {

// The next stage and the phase parity of its mbarriers, both i32; carried from tile to tile.
struct PipelineState {
  Value stage, parity;
  Values values() const { return {stage, parity}; }
  static PipelineState of(const Values& v) { return {v[0], v[1]}; }
};

// One of `count` equal parts of a stage along K.
struct StagePart {
  int64_t number = 0, count = 1;
};

class WgmmaKernel {
 public:
  WgmmaKernel(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& program, const WgmmaShape& shape);

  // Emits the whole kernel body.
  llvm::LogicalResult emit();

 private:
  // --- emit.cc: roles and tiles
  void initialize_barriers();
  // A tile's position, and the step that has its program. `exists` is null if it certainly exists, else an i1.
  struct Tile {
    GridPosition position;
    Value exists;
    GpuStep step;
  };
  // `readers`: for a grouped product, the threads that run this.
  PipelineState for_each_tile(const RowReaders& readers,
                              const std::function<PipelineState(const Tile&, PipelineState)>& body);
  Tile tile_at(Value linear, const GridPosition& tiles, const RowReaders& readers);
  GridPosition all_tiles();
  GridPosition own_tile();
  PipelineState advance(PipelineState s);
  Value full(Value stage), empty(Value stage);  // addresses of a stage's mbarriers
  // Where an operand begins in a stage: P comes first.
  int64_t place_of(const WgmmaOperand& x) const { return &x == &shape_.p() ? 0 : shape_.p().bytes; }

  // --- emit_mainloop.cc: the loops over K
  void produce();
  void copy_stage(const Tile& tile, const TileProgram& p, PipelineState s, Value depth);
  void consume();
  Values multiply_tile(Value count, PipelineState* state);
  Values multiply_apart(Value count, PipelineState* state);
  Value multiply_stage(Value stage, Value sums, Value accumulate, int64_t in_flight, StagePart part = {});
  std::pair<Value, Value> descriptors();
  Value plus(Value x, Value y);  // adds two accumulators
  void release(Value stage);

  // --- emit_load.cc: what threads bring to a stage, not TMA
  void load();
  void load_rows(const TileProgram& p, PipelineState s, Value depth);

  // --- emit_scaled.cc: operands in blocks, whose sums are scaled
  // The scales of one operand, P or Q, and those of a thread's lines of the tile.
  struct Scales {
    ScalePlaces places;
    DType blocks;
    const View* view;
    int64_t width;
    Values lines;
  };
  std::array<Scales, 2> scales_of_operands(const GpuStep& step, const TileProgram& p);
  Value share_scales_of_128(const std::array<Scales, 2>& scales);  // i1, or null if all operands do
  void find_lines(const TileProgram& p, std::array<Scales, 2>* scales);
  void store_scales(const TileProgram& p, const std::array<Scales, 2>& scales, PipelineState s, Value depth);
  Value scales_at(Value stage);  // address
  Values multiply_scaled(const Tile& tile, const TileProgram& p, Value count, PipelineState* state);
  Values multiply_groups(Value stage, int64_t groups, Value q_is_same, Values totals);
  // `columns(j)`: the scales of the thread's two columns of Q of the 8 from 8 * j on.
  Values add_scaled(const Values& totals, const Values& sums, const Values& rows,
                    const std::function<Values(int64_t j)>& columns);

  // --- emit_store.cc: the epilogue, patch by patch
  Patch patch_of(Value warp, Value index);
  Value patch_address(Value number);
  void store_tile(TileProgram& p, const Values& sums);
  void merge_in_cluster(const GridPosition& position, const Values& sums);
  void compare_tile(TileProgram& p, const GridPosition& position, const Values& sums);
  // --- emit_copy.cc: the epilogue with TMA stores
  void copy_tile(TileProgram& p, const Values& sums);
  Values inputs_of_pair(TileProgram& p, Value column);
  Value rounded_pair(TileProgram& p, const Values& sums, const Values& row_inputs);

  // Stores the accumulators of this warp's patch `index` to shared memory at `patch`.
  void stage_patch(const Values& sums, int64_t index, Value patch);

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  const WgmmaShape& shape_;
  WarpgroupProduct product_;
  int64_t cluster_;  // workgroups that share copies
  int64_t n_;        // columns of D
  Value maps_[2], batch_strides_[2];
  Value map_out_;                        // of D, if TMA stores it
  Value shared_, thread_, warp_, lane_;  // i32: address of shared memory; thread, warp and lane
  Value rank_;                           // in the cluster; null without one
  llvm::LogicalResult result_ = llvm::success();
};

}  // namespace lathe::emit
