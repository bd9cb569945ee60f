// Hopper's warpgroup products fed by tensor copies ("wgmma"): one warp of the last warpgroup copies parts of
// A and B into the stages of shared memory, the other warpgroups multiply from there; two barriers a stage,
// "full" and "empty", hand it over. What the parts of the emitter share.
#pragma once

#include "compiler/ptx_hopper.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/wgmma/shape.h"

namespace lathe::emit {

// The stage that comes next and the parity of its barriers' phase, both i32; carried from tile to tile.
struct PipelineState {
  Value stage, parity;
  Values values() const { return {stage, parity}; }
  static PipelineState of(const Values& v) { return {v[0], v[1]}; }
};

class WgmmaKernel {
 public:
  WgmmaKernel(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& program, const WgmmaShape& shape);

  // The whole body.
  llvm::LogicalResult emit();

 private:
  // --- emit_wgmma.cc: roles and tiles
  void initialize_barriers();
  // Where a tile is; `exists` is null if it certainly does, else i1.
  struct Tile {
    GridPosition position;
    Value exists;
  };
  PipelineState for_each_tile(const std::function<PipelineState(const Tile&, PipelineState)>& body);
  Tile tile_at(Value linear);
  GridPosition own_tile();
  PipelineState advance(PipelineState s);
  Value full(Value stage), empty(Value stage);  // addresses of a stage's barriers

  // --- emit_wgmma_mainloop.cc
  void produce();
  void copy_stage(const TileProgram& p, PipelineState s, Value depth);
  void consume();
  Values multiply_tile(Value count, PipelineState* state);
  Values multiply_apart(Value count, PipelineState* state);
  Value multiply_stage(Value stage, Value sums, Value accumulate, int64_t in_flight);
  std::pair<Value, Value> descriptors();
  Value plus(Value x, Value y);  // of sums
  void release(Value stage);

  // --- emit_wgmma_store.cc: the way out, patch by patch
  struct Place {
    Value row, column;  // of D within the tile, i32
  };
  Place place_of(Value warp, Value index);  // of the first element of a warp's patch
  Value patch_address(Value number);
  void store_tile(TileProgram& p, const Values& sums);
  void merge_in_cluster(const GridPosition& position, const Values& sums);
  void compare_tile(TileProgram& p, const GridPosition& position, const Values& sums);
  // --- emit_wgmma_copy.cc
  void copy_tile(TileProgram& p, const Values& sums);
  Values inputs_of_pair(TileProgram& p, Value column);
  Value rounded_pair(TileProgram& p, const Values& sums, const Values& row_inputs);

  // The sums of patch `index` of this warp into shared memory at `patch`.
  void stage_patch(const Values& sums, int64_t index, Value patch);
  // A patch into global memory, by one warp: `load` reads `count` neighbours of it, `offset` bytes from its
  // start.
  using LoadSums = std::function<Values(Value offset, int64_t count)>;
  void store_patch(TileProgram& p, Place place, const LoadSums& load);
  void store_group(TileProgram& p, const Values& sums, Value row, Value column);

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  const WgmmaShape& shape_;
  WarpgroupProduct product_;
  int64_t cluster_;  // workgroups that share copies
  int64_t n_;        // columns of D
  Value maps_[2], batch_strides_[2];
  Value map_out_;                        // of D where copies write it
  Value shared_, thread_, warp_, lane_;  // i32: address, thread, warp and lane
  Value rank_;                           // in the cluster; null without one
  llvm::LogicalResult result_ = llvm::success();
};

}  // namespace lathe::emit
