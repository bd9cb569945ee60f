// Weights of 4 bits in blocks along K (q4_0), as a CPU kernel reads them: numbers of f32, exactly.
#pragma once

#include "compiler/emit.h"

namespace lathe::emit {

class CpuBlocks {
 public:
  CpuBlocks(Emit& e, int64_t lanes) : e_(e), lanes_(lanes) {}

  // Whether the view's elements lie in blocks: as a payload has it, where they are i4. Offsets in such a view
  // count elements, its memory is of bytes.
  static bool holds(const View& v) { return v.element.isInteger(4); }
  int64_t vectors() const;  // of a block

  // A vector of elements from `at` on, a multiple of the lanes.
  Value along_k(const View& v, Value at) const;
  // Every vector of the block that begins at element `at`.
  Values block(const View& v, Value at) const;
  // The byte that a block begins with.
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
