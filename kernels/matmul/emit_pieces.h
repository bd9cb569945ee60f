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
  GpuPieces(Emit& e, const View& v, Alignment alignment, Type element, int64_t scaled)
      : e_(e), v_(v), alignment_(alignment_of_rows(alignment)), element_(element), scaled_(scaled) {}

  // Issues the loads: element `inside` (a multiple of kElements) of the block at `byte` is the first.
  Values load(Value byte, Value inside) const;
  // A weight is its code times the scale plus the minimum of its group. If A holds an infinity, the first term alone is
  // the product. Where a scale or a minimum is not finite, the codes are the weights themselves.
  struct Decoded {
    Values words;           // i32: two codes each
    Values scales, minima;  // f32, one for each group; no minima if the format has none
  };
  Decoded decode(llvm::ArrayRef<Value> loaded, Value inside) const;

 private:
  Emit& e_;
  const View& v_;
  int64_t alignment_;
  Type element_;
  int64_t scaled_;
};

}  // namespace lathe::emit
