// Weights in a block format as a CPU kernel reads them: converted to f32 exactly.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

// The layout of a q4_0 block: an f16 scale, then at byte kNumbers 16 bytes of two numbers each.
struct Q4_0 {
  static constexpr int64_t kElements = block_elements(DType::kQ4_0);
  static constexpr int64_t kBytes = static_cast<int64_t>(size_of(DType::kQ4_0));
  static constexpr int64_t kNumbers = 2;
};

// Reads a view that is stored in blocks. Offsets in the view count elements.
class CpuBlocks {
 public:
  CpuBlocks(Emit& e, int64_t lanes, const View& v) : e_(e), lanes_(lanes), v_(v) {}

  static bool holds(const View& v) { return v.blocks != DType::kNone; }
  // The elements of the whole blocks in `bytes` bytes.
  static int64_t elements_in(const View& v, int64_t bytes) {
    return bytes / static_cast<int64_t>(size_of(v.blocks)) * block_elements(v.blocks);
  }
  int64_t vectors() const { return block_elements(v_.blocks) / lanes_; }  // of a block

  // A vector of elements from `at` on. `at` is a multiple of the lanes.
  Value along_k(Value at) const;
  // All vectors of the block that begins at element `at`.
  Values block(Value at) const;
  // The first byte of the block that holds element `at`.
  Value byte_of(Value at) const;

 private:
  Emit& e_;
  int64_t lanes_;
  const View& v_;
};

}  // namespace lathe::emit
