// How a "simt" kernel copies one operand's part of a tile to shared memory: `width` rows of A (columns of B) by
// tile_k, with K outermost, as f32 (i8: as i32).
#pragma once

#include <memory>
#include <numeric>

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/emit_scales.h"

namespace lathe::emit {

struct StagedPart {
  const View& view;
  bool k_contiguous;
  int64_t width;
  int64_t register_size;  // rows (columns) of a thread
  Value limit;            // rows (columns) that exist
  ScalePlaces scales;
};

class StagedOperand {
 public:
  StagedOperand(Emit& e, const GpuKernel& kernel, const StagedPart& part)
      : e_(e),
        view_(part.view),
        width_(part.width),
        depth_(kernel.config<SimtConfig>().tile_k),
        threads_(kernel.threads()),
        vector_(std::gcd(part.register_size, kVector)),
        last_(e.sub(part.limit, e.idx(1))) {}
  virtual ~StagedOperand() = default;

  // Loads this thread's elements of the block [k0, k0 + tile_k) of [0, depth). Beyond the tile's edge and
  // beyond the depth the last row, column or k is read again, so that nothing outside the operand is read.
  virtual Values load(Value k0, Value depth) = 0;
  // Stores what load() returned for the same block, with zeros beyond the depth. The conditions are computed
  // here: kept while the loads are in flight, they spill scalar registers on gfx1100.
  virtual void store(llvm::ArrayRef<Value> loaded, Value shared, int64_t offset, Value k0, Value depth) = 0;

  // Distance in shared memory from one k to the next: the width and one vector, against bank conflicts.
  int64_t stride() const { return width_ + vector_; }
  int64_t shared_elements() const { return stride() * depth_; }
  int64_t vector() const { return vector_; }

  static constexpr int64_t kVector = 4;  // elements (f32, i32) of the widest load from shared memory

 protected:
  // Whether every block of K lies within the depth.
  bool has_whole_blocks(Value depth) const { return Emit::known(depth) && *Emit::known(depth) % depth_ == 0; }

  Emit& e_;
  const View& view_;
  int64_t width_, depth_, threads_, vector_;
  Value last_;
};

// An operand in quantised blocks, which are decoded on the way.
std::unique_ptr<StagedOperand> stage_blocks(Emit& e, const GpuKernel& kernel, const StagedPart& part);
// Whether tile_k divides a block and is whole runs.
bool can_stage_blocks(const SimtConfig& config, DType blocks);

}  // namespace lathe::emit
