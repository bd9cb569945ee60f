// Generic kernels. One generic kernel serves every size, layout, epilogue and output dtype of one operand
// dtype. They ship prebuilt in the fallback bundle and run while the specialised kernel is being compiled.
//
// A generic class leaves these properties open. The launch passes them in the argument block: sizes and
// strides in their own fields, all others in `form`.
#pragma once

#include <vector>

#include "core/facts.h"
#include "core/problem.h"
#include "core/products.h"

namespace lathe {

// The first bit of each field of `form`. Dtypes take kBits each and hold the value of their enum (dtype none:
// no such operand); so does the activation, in the bits below kCombine. Layouts and `combine` take one bit (1:
// COLUMN_MAJOR, multiply).
struct Form {
  static constexpr int kBits = 4;
  static constexpr int kTransA = 0, kTransB = 1, kActivation = 4, kCombine = 7, kC = 8, kD = 12, kBias = 16,
                       kResidual = 20, kLogits = 24, kValues = 28;
};
int64_t form_of(const ProblemClass& c);

// The generic class that serves `c`. Its math is strict f32 and its order of K is the same for every size.
ProblemClass generic_class_of(const ProblemClass& c);
// Every generic class that a device of the target may need.
std::vector<ProblemClass> generic_classes(const Target& target);

// Whether a generic kernel may replace the specialised kernel of `c`. Its numeric recipe differs, so a product
// must allow Determinism::kFast; scales, zero points, packed weights and a matmul_argmax of block formats are not
// supported. Every argmax may: comparisons are exact, so all kernels give the same result.
bool may_fall_back(const ProblemClass& c);

}  // namespace lathe
