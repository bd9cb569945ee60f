#include "tune/place.h"

#include <algorithm>

#include "core/packed.h"

namespace lathe {
namespace {

// The row pitch, in elements, of a matrix with this number of columns, for the alignment of the class.
int64_t pitch_of(int64_t columns, DType t, Alignment alignment) {
  if (alignment != Alignment::k16 || is_blocks(t)) return columns;
  const auto elements = static_cast<int64_t>(16 / std::min<size_t>(16, size_of(t)));
  return (columns + elements - 1) / elements * elements;
}

}  // namespace

size_t bytes_of(int64_t rows, int64_t pitch, DType t) {
  return static_cast<size_t>(rows) * static_cast<size_t>(pitch / block_elements(t)) * size_of(t);
}

Placed place(const Shape& shape, bool transposed, DType t, Alignment alignment, int64_t batch) {
  Placed p;
  const int64_t pitch = pitch_of(shape.columns, t, alignment);
  p.operand.dtype = dtype_of(t);
  p.operand.layout = transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  p.operand.leading_dimension = pitch;
  p.operand.batch_stride = batch > 1 ? shape.rows * pitch : 0;
  p.bytes = bytes_of(shape.rows * batch, pitch, t);
  return p;
}

Placed place_weight(const ProblemClass& c, const Dims& dims) {
  if (c.packed_b == kNotPacked)
    return place(stored(dims.k, dims.n, c.trans_b), c.trans_b, c.b, c.alignment, dims.batch);
  Placed p;
  const auto layout = static_cast<PackedLayout>(c.packed_b);
  p.operand.dtype = dtype_of(c.b);
  p.operand.packed_layout = packed_layout_id(layout, c.b);
  p.operand.batch_stride = dims.batch > 1 ? packed_elements(layout, c.k, c.n, c.b) : 0;
  p.bytes = static_cast<size_t>(packed_bytes(layout, c.k, c.n, c.b) * dims.batch);
  return p;
}

}  // namespace lathe
