// Weights in a block format as matrix instructions multiply them: the codes as 16-bit floats, which hold them exactly,
// and the scale and minimum of each group of codes in f32.
#pragma once

#include "core/problem.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {

// The alignment of the base and of the rows of an operand in blocks, in bytes.
int64_t alignment_of_rows(Alignment alignment);

// Decodes pieces of a column: kElements elements each. Formats of products.h's kGpuBlocks.
class GpuPieces {
 public:
  static constexpr int64_t kElements = 32;

  // `element`: f16 or bf16. `scaled`: elements that share a scale.
  GpuPieces(Emit& e, const View& v, const ScalePlaces& places, Alignment alignment, Type element,
            int64_t scaled)
      : e_(e),
        v_(v),
        places_(places),
        alignment_(alignment_of_rows(alignment)),
        element_(element),
        scaled_(scaled) {}

  GpuBlockLine line(Value i) const { return gpu_block_line(e_, v_, places_, i); }
  // Issues the loads of the piece from element `k` (a multiple of kElements) of the tile's K on.
  Values load(const GpuBlockLine& line, Value k) const;
  // A weight is its code times the scale plus the minimum of its group. If A holds an infinity, the first term alone is
  // the product. Where a scale or a minimum is not finite, the codes are the weights themselves.
  struct Decoded {
    Values words;           // i32: two codes each
    Values scales, minima;  // f32, one for each group; no minima if the format has none
  };
  Decoded decode(llvm::ArrayRef<Value> loaded, Value k) const;

 private:
  // The place of a piece in its block: shows LLVM that it is a multiple of a piece.
  Value inside(Value k) const {
    const int64_t pieces = block_elements(v_.blocks) / kElements;
    return e_.mul(e_.rem(e_.div(k, e_.idx(kElements)), e_.idx(pieces)), kElements);
  }

  Emit& e_;
  const View& v_;
  ScalePlaces places_;
  int64_t alignment_;
  Type element_;
  int64_t scaled_;
};

}  // namespace lathe::emit
