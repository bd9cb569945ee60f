// Generic kernels: one serves every size, layout, epilogue and output dtype of an operand dtype. They ship
// prebuilt (the fallback bundle) and run while the kernel cut to the class is compiled.
//
// What a class of theirs leaves open, a launch says: sizes and strides in the argument block's fields for
// them, the rest in its `form`.
#pragma once

#include <vector>

#include "core/facts.h"
#include "core/problem.h"

namespace lathe {

// The bits of `form`: where each field starts. Dtypes and the activation take kFormBits as their enums'
// values (a dtype of none: there is no such operand), layouts one bit (1: COLUMN_MAJOR).
struct Form {
  static constexpr int kBits = 4;
  static constexpr int kTransA = 0, kTransB = 1, kActivation = 4, kC = 8, kD = 12, kBias = 16, kResidual = 20,
                       kLogits = 24, kValues = 28;
};
int64_t form_of(const ProblemClass& c);

// The generic class that serves `c`. Math and determinism are those of its kernel: f32, one order of K for
// every size.
ProblemClass generic_class_of(const ProblemClass& c);
// Every generic class that a device of the target may need.
std::vector<ProblemClass> generic_classes(const Target& target);

// Whether a generic kernel may stand in for a class's own: its numeric recipe is another, which no
// determinism above fast allows, nor are scales and zero points open; argmax compares exactly, by whatever
// kernel.
bool may_fall_back(const ProblemClass& c);

}  // namespace lathe
