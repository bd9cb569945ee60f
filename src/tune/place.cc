#include "tune/place.h"

#include <algorithm>

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

}  // namespace lathe
