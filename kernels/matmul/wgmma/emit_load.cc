// What warps of the producer's warpgroup bring to a stage themselves: scales, and listed rows of A.
#include "kernels/matmul/emit_rows.h"
#include "kernels/matmul/wgmma/emit.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kLoaders = 3;         // warps: all of the warpgroup but the first
constexpr int64_t kLoadersBarrier = 2;  // the number of their named barrier

// The state after `blocks` (i32) further blocks of K.
PipelineState after(Emit& e, PipelineState s, Value blocks, int64_t stages) {
  Value at = e.add(s.stage, blocks), turns = e.rem(e.div(at, e.i32(stages)), e.i32(2));
  return {e.rem(at, e.i32(stages)), arith::XOrIOp::create(e.b, e.loc, s.parity, turns)};
}

}  // namespace

// The warps take blocks of K in turns, so the loads of several blocks are in flight.
void WgmmaKernel::load() {
  const int64_t first_warp = 4 * shape_.consumers + 1, threads = 32 * kLoaders;
  Value first = e_.sub(warp_, e_.i32(first_warp));
  const RowReaders readers = {e_.sub(kernel_.thread(), e_.idx(32 * first_warp)), threads,
                              [this, threads] { named_barrier(e_, kLoadersBarrier, threads); },
                              /*a=*/true, /*d=*/false};
  for_each_tile(readers, [&](const Tile& tile, PipelineState state) {
    FailureOr<TileProgram> program = tile.step.at(e_, tile.position);
    if (failed(program)) {
      result_ = failure();
      return state;
    }
    std::array<Scales, 2> scales;
    if (shape_.in.scaled > 0) {
      scales = scales_of_operands(tile.step, *program);
      find_lines(*program, &scales);
    }
    Value count = e_.to_i32(e_.ceil_div(program->depth, e_.idx(shape_.in.tile_k)));
    e_.loop(first, count, kLoaders, [&](Value i) {
      const PipelineState s = after(e_, state, i, shape_.in.stages);
      wait_barrier(e_, empty(s.stage), arith::XOrIOp::create(e_.b, e_.loc, s.parity, e_.i32(1)));
      Value depth = e_.widen(e_.mul(i, shape_.in.tile_k));
      if (shape_.in.lists_rows) load_rows(*program, s, depth);
      if (shape_.in.scaled > 0) store_scales(*program, scales, s, depth);
      if (shape_.in.lists_rows) finish_rows(e_);
      sync_warp(e_);
      e_.when(e_.equal(lane_, e_.i32(0)), [&] { arrive(e_, full(s.stage)); });
    });
    return after(e_, state, count, shape_.in.stages);
  });
}

// Copies the part of A at `depth` (index) of the program's K.
void WgmmaKernel::load_rows(const TileProgram& p, PipelineState s, Value depth) {
  linalg::LinalgOp contraction = p.contraction;
  const View& a = p.views.find(contraction.getDpsInputs()[0])->second;
  Value to = e_.add(e_.add(shared_, e_.mul(s.stage, shape_.stage_bytes)), place_of(shape_.a));
  for (int64_t box = 0; box < shape_.a.boxes; ++box)
    copy_rows(e_, a, {shape_.a.width, false, {}}, lane_, e_.add(depth, box * shape_.a.box_columns), p.depth,
              e_.add(to, box * shape_.a.width * WgmmaShape::kRow));
}

}  // namespace lathe::emit
