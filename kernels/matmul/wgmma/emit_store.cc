// Stores a warpgroup's accumulators to D. wgmma leaves each thread only pairs of adjacent columns. A warp
// therefore passes its rows through a patch of shared memory, from which adjacent lanes write 16 bytes each
// of a row of D (and read C and the residual in the same way).
#include "kernels/matmul/wgmma/emit.h"

namespace lathe::emit {
using namespace mlir;

Value WgmmaKernel::patch_address(Value number) {
  return e_.add(e_.add(shared_, e_.mul(number, shape_.patch_bytes())), shape_.patches_at);
}

Patch WgmmaKernel::patch_of(Value warp, Value index) {
  const int64_t pieces = shape_.patches() / shape_.blocks;  // patches side by side
  Value block = e_.add(e_.mul(e_.div(warp, e_.i32(4)), shape_.blocks), e_.div(index, e_.i32(pieces)));
  Value along_p = e_.add(e_.mul(block, 64), e_.mul(e_.rem(warp, e_.i32(4)), 16));
  Value along_q = e_.mul(e_.rem(index, e_.i32(pieces)), WgmmaShape::kPatch);
  Patch patch{shape_.patch_rows(), shape_.patch_columns(), shape_.patch_pitch(), along_p, along_q, lane_,
              step_.is_grouped()};
  if (shape_.in.swap) std::swap(patch.row, patch.column);
  return patch;
}

void WgmmaKernel::store_tile(TileProgram& p, const Values& sums) {
  Value patch = patch_address(warp_);
  // A loop with one branch per patch for its registers, so that the epilogue's code is emitted once. ptxas
  // compiles the unrolled form much more slowly.
  e_.loop(e_.i32(0), e_.i32(shape_.patches()), 1, [&](Value index) {
    for (int64_t i = 0; i < shape_.patches(); ++i)
      e_.when(e_.equal(index, e_.i32(i)), [&] { stage_patch(sums, i, patch); });
    sync_warp(e_);
    store_patch(e_, p, patch_of(warp_, index), [&](Value offset, int64_t count) {
      return load_shared(e_, e_.add(patch, offset), 0, count, product_.sum);
    });
    sync_warp(e_);
  });
}

// Each workgroup of the cluster leaves its accumulators in its shared memory and merges its share of the
// patches. It adds them in ascending order of the split, which is the workgroup's rank.
void WgmmaKernel::merge_in_cluster(const GridPosition& position, const Values& sums) {
  const int64_t warps = 4 * shape_.consumers, ranks = shape_.in.cluster_k;
  kernel_.barrier();  // no warp reads the stages any more
  for (int64_t index = 0; index < shape_.patches(); ++index)
    stage_patch(sums, index, patch_address(e_.add(e_.mul(warp_, shape_.patches()), index)));
  cluster_barrier(e_);
  FailureOr<TileProgram> program = step_.merge_at(e_, position);
  if (failed(program)) {
    result_ = failure();
    return;
  }
  Value first = e_.add(e_.mul(rank_, warps), warp_), all = e_.i32(warps * shape_.patches());
  e_.loop(first, all, ranks * warps, [&](Value number) {
    Value of = e_.div(number, e_.i32(shape_.patches())), index = e_.rem(number, e_.i32(shape_.patches()));
    Values parts;
    for (int64_t rank = 0; rank < ranks; ++rank)
      parts.push_back(address_at(e_, patch_address(number), e_.i32(rank)));
    store_patch(e_, *program, patch_of(of, index), [&](Value offset, int64_t count) {
      Values total = load_cluster(e_, e_.add(parts[0], offset), 0, count, product_.sum);
      for (Value part : llvm::drop_begin(parts)) {
        Values more = load_cluster(e_, e_.add(part, offset), 0, count, product_.sum);
        for (auto [sum, x] : llvm::zip(total, more)) sum = plus(sum, x);
      }
      return total;
    });
  });
}

// matmul_argmax. Of every 64 rows of P a thread holds two, 8 apart, each with pairs of adjacent columns of Q.
// A row of D is spread over four lanes, or over eight with `swap`.
void WgmmaKernel::compare_tile(TileProgram& p, const GridPosition& position, const Values& sums) {
  std::unique_ptr<OutputSink> sink = make_sink(e_, kernel_, step_, p, position);
  const int64_t pairs = shape_.q().width / 8, along_p = 2 * shape_.blocks, along_q = 2 * pairs;
  const auto p_at = [](int64_t i) { return i / 2 * 64 + i % 2 * 8; };
  const auto q_at = [](int64_t j) { return j / 2 * 8 + j % 2; };
  Value warpgroup = e_.div(warp_, e_.i32(4)), warp = e_.rem(warp_, e_.i32(4));
  Value first_p =
      e_.add(e_.mul(warpgroup, 64 * shape_.blocks), e_.add(e_.mul(warp, 16), e_.div(lane_, e_.i32(4))));
  Value first_q = e_.mul(e_.rem(lane_, e_.i32(4)), 2);
  const bool swap = shape_.in.swap;
  const int32_t lanes_of_row = swap ? 0b11100 : 0b00011;
  for (int64_t r = 0; r < (swap ? along_q : along_p); ++r) {
    // Inline PTX hides the value from LLVM, which would otherwise keep what depends on the columns (biases,
    // bounds) from one row to the next and spill.
    Value first = inline_ptx(e_, "mov.b32 $0, $1;", "=r,r", swap ? first_p : first_q, e_.b.getI32Type());
    Values columns, of_row;
    for (int64_t c = 0; c < (swap ? along_p : along_q); ++c) {
      const int64_t i = swap ? c : r, j = swap ? r : c;
      columns.push_back(e_.add(first, swap ? p_at(i) : q_at(j)));
      of_row.push_back(sums[(i / 2 * pairs + j / 2) * 4 + i % 2 * 2 + j % 2]);
    }
    sink->row(swap ? e_.add(first_q, q_at(r)) : e_.add(first_p, p_at(r)), columns, of_row, lanes_of_row);
  }
  if (failed(sink->done())) result_ = failure();
}

void WgmmaKernel::stage_patch(const Values& sums, int64_t index, Value patch) {
  const int64_t pitch = shape_.patch_pitch(), columns = shape_.q().width;
  const int64_t pieces = shape_.patches() / shape_.blocks, of_block = columns / 2;
  const int64_t first = index / pieces * of_block, first_column = index % pieces * WgmmaShape::kPatch;
  const int64_t last_column = std::min(columns, first_column + WgmmaShape::kPatch);
  Value row = e_.div(lane_, e_.i32(4)), pair = e_.mul(e_.rem(lane_, e_.i32(4)), 2);
  Value at = shape_.in.swap ? e_.add(e_.mul(pair, pitch), row) : e_.add(e_.mul(row, pitch), pair);
  at = e_.add(patch, e_.mul(at, 4));
  for (int64_t column = first_column; column < last_column; column += 8)
    for (int64_t h = 0; h < 2; ++h) {
      const int64_t pair_at = first + column / 8 * 4 + h * 2, q = column - first_column;
      ArrayRef<Value> two = ArrayRef<Value>(sums).slice(pair_at, 2);
      if (shape_.in.swap)
        for (int64_t c = 0; c < 2; ++c) store_shared(e_, at, 4 * ((q + c) * pitch + 8 * h), two[c]);
      else
        store_shared(e_, at, 4 * (8 * h * pitch + q), two);
    }
}

}  // namespace lathe::emit
