// An argument block for a part of a batch.
#pragma once

#include "core/args.h"
#include "core/block_scaled.h"
#include "core/problem.h"

namespace lathe::gpu {

// The block for `count` matrices from number `first` on: pointers with a batch stride move, the rest is the
// same.
inline ArgumentBlock sub_batch(const ArgumentBlock& args, const ProblemClass& problem, int64_t first,
                               int64_t count) {
  ArgumentBlock part = args;
  const auto move = [first](void** data, int64_t stride, DType dtype) {
    if (*data != nullptr)
      *data = static_cast<char*>(*data) +
              first * stride * static_cast<int64_t>(size_of(dtype)) / block_elements(dtype);
  };
  const auto move_scales = [first](void** data, int64_t stride, DType blocks) {
    const int64_t in_block = block_elements(blocks) / elements_of_scale(blocks);
    if (has_scales_apart(blocks))
      *data = static_cast<char*>(*data) + first * stride * (row_of(blocks).apart / in_block);
  };
  move_scales(&part.scale_a, args.scale_a_matrix, problem.a);
  move_scales(&part.scale_b, args.scale_b_matrix, problem.b);
  move(&part.a, args.stride_a, problem.a);
  move(&part.b, args.stride_b, problem.b);
  move(&part.c, args.stride_c, problem.c);
  move(&part.d, args.stride_d, problem.d);
  move(&part.residual, args.stride_r, problem.residual);
  part.batch = static_cast<int32_t>(count);
  if (has_program(problem.op)) part.index_offset += first;  // the batch index of the part starts here
  return part;
}

}  // namespace lathe::gpu
