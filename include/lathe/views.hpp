// Lathe for C++17: errors, matrix views, and functions that turn views into op descriptors. lathe.hpp includes it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe {

// What every function of this API throws on failure.
class Error : public std::runtime_error {
 public:
  Error(lathe_status status, const std::string& message)
      : std::runtime_error(std::string(lathe_status_name(status)) + " " + message), status_(status) {}
  lathe_status status() const noexcept { return status_; }

 private:
  lathe_status status_;
};

// Throws an Error with the calling thread's last message unless `status` is LATHE_OK.
inline void check(lathe_status status) {
  if (status != LATHE_OK) throw Error(status, lathe_last_error());
}

// The dtype of a C++ element type.
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr lathe_dtype value = LATHE_F32;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr lathe_dtype value = LATHE_I8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr lathe_dtype value = LATHE_I32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr lathe_dtype value = LATHE_I64;
};

// A view of a matrix, or of a batch of them. It does not own the memory, which must live until the call returns (on a
// GPU, until the work is done). Inputs are never written.
struct Matrix {
  void* data = nullptr;
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  int64_t rows = 0, columns = 0;
  lathe_layout layout = LATHE_ROW_MAJOR;
  int64_t leading_dimension = 0;  // in elements; 0: packed
  int64_t batch_stride = 0;       // in elements; 0 broadcasts an input
  uint32_t packed_layout = 0;     // b only: the layout id of packed weights (see PackedWeight)

  // The same memory, seen as the transposed matrix.
  Matrix transposed() const {
    Matrix t = *this;
    std::swap(t.rows, t.columns);
    t.layout = layout == LATHE_ROW_MAJOR ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
    return t;
  }
  lathe_operand operand() const {
    lathe_operand o = LATHE_OPERAND_INIT;
    o.data = data;
    o.dtype = dtype;
    o.layout = layout;
    o.leading_dimension = leading_dimension;
    o.batch_stride = batch_stride;
    o.packed_layout = packed_layout;
    return o;
  }
};

// A row-major view. leading_dimension 0: rows are contiguous.
inline Matrix row_major(const void* data, lathe_dtype dtype, int64_t rows, int64_t columns,
                        int64_t leading_dimension = 0, int64_t batch_stride = 0) {
  return {const_cast<void*>(data), dtype, rows, columns, LATHE_ROW_MAJOR, leading_dimension, batch_stride};
}
template <typename T>
Matrix row_major(const T* data, int64_t rows, int64_t columns, int64_t leading_dimension = 0,
                 int64_t batch_stride = 0) {
  return row_major(data, DTypeOf<T>::value, rows, columns, leading_dimension, batch_stride);
}

// d = activation(alpha * A B + beta * C + bias) + residual, or times residual, as in lathe_epilogue. The defaults give d = A B.
struct Epilogue {
  float alpha = 1.0f;
  float beta = 0.0f;
  Matrix c;  // only read if beta is not 0
  const void* bias = nullptr;  // one element per column of d; null: none
  lathe_dtype bias_dtype = LATHE_DTYPE_NONE;
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  Matrix residual;  // null data: none
  lathe_combine combine = LATHE_COMBINE_ADD;
};

// The options of a call besides its operands.
struct CallOptions {
  lathe_stream stream = nullptr;
  int64_t batch = 1;  // must be 1 for argmax and matmul_argmax
  lathe_determinism determinism = LATHE_DETERMINISM_FAST;
  lathe_miss_policy miss_policy = LATHE_MISS_DEFAULT;
  const lathe_chain* next = nullptr;  // lathe_workspace, lathe_tuning, lathe_external
  lathe_math math = LATHE_MATH_STRICT;
  lathe_dependent_launch dependent_launch = LATHE_DEPENDENT_LAUNCH_OFF;
};

namespace internal {

inline void check_no_batch(const char* op, const CallOptions& options) {
  if (options.batch == 1) return;
  throw Error(LATHE_INVALID_ARGUMENT,
              std::string(op) + ": batch is " + std::to_string(options.batch) + ", not 1");
}

}  // namespace internal

// The descriptor of d = epilogue(a b). Throws INVALID_ARGUMENT if the shapes do not fit.
inline lathe_matmul_desc matmul_desc(const Matrix& a, const Matrix& b, const Matrix& d,
                                     const Epilogue& epilogue = {}, const CallOptions& options = {}) {
  const auto check_shape = [](const char* name, const Matrix& matrix, int64_t rows, int64_t columns) {
    if (matrix.rows == rows && matrix.columns == columns) return;
    throw Error(LATHE_INVALID_ARGUMENT, "matmul: " + std::string(name) + " is " +
                                            std::to_string(matrix.rows) + " by " +
                                            std::to_string(matrix.columns) + ", not " + std::to_string(rows) +
                                            " by " + std::to_string(columns));
  };
  check_shape("a", a, d.rows, a.columns);
  check_shape("b", b, a.columns, d.columns);
  if (epilogue.beta != 0.0f) check_shape("c", epilogue.c, d.rows, d.columns);
  if (epilogue.residual.data != nullptr) check_shape("residual", epilogue.residual, d.rows, d.columns);

  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.next = options.next;
  desc.m = d.rows;
  desc.n = d.columns;
  desc.k = a.columns;
  desc.batch = options.batch;
  desc.a = a.operand();
  desc.b = b.operand();
  desc.c = epilogue.c.operand();
  desc.d = d.operand();
  desc.epilogue.alpha = epilogue.alpha;
  desc.epilogue.beta = epilogue.beta;
  desc.epilogue.bias = epilogue.bias;
  desc.epilogue.bias_dtype = epilogue.bias_dtype;
  desc.epilogue.activation = epilogue.activation;
  desc.epilogue.residual = epilogue.residual.operand();
  desc.epilogue.combine = epilogue.combine;
  desc.determinism = options.determinism;
  desc.miss_policy = options.miss_policy;
  desc.dependent_launch = options.dependent_launch;
  desc.math = options.math;
  return desc;
}

// The descriptor of argmax over each row of x. indices: x.rows elements of int32_t or int64_t. values: x.rows floats,
// or null if not wanted.
template <typename Index>
lathe_argmax_desc argmax_desc(const Matrix& x, Index* indices, float* values = nullptr,
                              int64_t index_offset = 0, const CallOptions& options = {}) {
  internal::check_no_batch("argmax", options);
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.next = options.next;
  desc.rows = x.rows;
  desc.n = x.columns;
  desc.x = x.operand();
  desc.indices = indices;
  desc.index_dtype = DTypeOf<Index>::value;
  desc.index_offset = index_offset;
  desc.values = values;
  desc.determinism = options.determinism;
  desc.miss_policy = options.miss_policy;
  desc.dependent_launch = options.dependent_launch;
  return desc;
}

// How matmul_argmax compares, and what it returns besides the indices.
struct Logits {
  lathe_dtype dtype = LATHE_F32;  // each sum is rounded to it before it is compared
  const void* bias = nullptr;
  lathe_dtype bias_dtype = LATHE_DTYPE_NONE;
  int64_t index_offset = 0;  // the first column of a vocabulary shard
  float* values = nullptr;   // a.rows floats, or null if not wanted
};

// The descriptor of argmax over each row of a b. indices: a.rows elements of int32_t or int64_t.
template <typename Index>
lathe_matmul_argmax_desc matmul_argmax_desc(const Matrix& a, const Matrix& b, Index* indices,
                                            const Logits& logits = {}, const CallOptions& options = {}) {
  if (a.columns != b.rows) {
    throw Error(LATHE_INVALID_ARGUMENT, "matmul_argmax: b has " + std::to_string(b.rows) + " rows, a " +
                                            std::to_string(a.columns) + " columns");
  }
  internal::check_no_batch("matmul_argmax", options);
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.next = options.next;
  desc.m = a.rows;
  desc.n = b.columns;
  desc.k = a.columns;
  desc.a = a.operand();
  desc.b = b.operand();
  desc.bias = logits.bias;
  desc.bias_dtype = logits.bias_dtype;
  desc.logits_dtype = logits.dtype;
  desc.indices = indices;
  desc.index_dtype = DTypeOf<Index>::value;
  desc.index_offset = logits.index_offset;
  desc.values = logits.values;
  desc.determinism = options.determinism;
  desc.miss_policy = options.miss_policy;
  desc.dependent_launch = options.dependent_launch;
  desc.math = options.math;
  return desc;
}

// The descriptor of d = program(inputs), with the inputs in the program's order. A vector along n is a Matrix with one
// row, a vector along m a Matrix with one column.
inline lathe_elementwise_desc elementwise_desc(const lathe_program* program, const std::vector<Matrix>& inputs,
                                               const Matrix& d, const CallOptions& options = {}) {
  if (inputs.size() > LATHE_ELEMENTWISE_INPUTS)
    throw Error(LATHE_INVALID_ARGUMENT, "elementwise: " + std::to_string(inputs.size()) + " inputs");
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  desc.next = options.next;
  desc.program = program;
  desc.m = d.rows;
  desc.n = d.columns;
  desc.batch = options.batch;
  for (size_t i = 0; i < inputs.size(); ++i) desc.inputs[i] = inputs[i].operand();
  desc.d = d.operand();
  desc.miss_policy = options.miss_policy;
  desc.dependent_launch = options.dependent_launch;
  return desc;
}

}  // namespace lathe
