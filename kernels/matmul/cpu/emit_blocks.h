// Reads weights of 4 bits in blocks along K (q4_0) in CPU kernels, exactly, as f32.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

class CpuBlocks {
 public:
  CpuBlocks(Emit& e, int64_t lanes) : e_(e), lanes_(lanes) {}

  // Whether the view's elements are in blocks: the payload gives them the type i4. Offsets into such a view
  // count elements; its memory holds bytes.
  static bool holds(const View& v) { return v.element.isInteger(4); }
  int64_t vectors() const;  // in a block

  // The vector of elements from `at` on, a multiple of the lanes.
  Value along_k(const View& v, Value at) const;
  // All vectors of the block that begins at element `at`.
  Values block(const View& v, Value at) const;
  // The offset in bytes of the block that begins at element `at`.
  Value byte_of(Value at) const;

 private:
  Value scale_at(const View& v, Value byte) const;
  Value bytes_at(const View& v, Value byte) const;  // as i32
  Value numbers(Value words, Value scale) const;
  Value shifted(Value words, Value bits) const;

  Emit& e_;
  int64_t lanes_;
};

}  // namespace lathe::emit
