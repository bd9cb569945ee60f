// Compiles kernels for described GPUs through the public API and reads the metadata in their code.
#pragma once

#include <string>

#include "assembler.h"
#include "code_facts.h"
#include "core/json.h"
#include "core/recipe.h"
#include "lathe/lathe.hpp"

namespace lathe {

// Options of a context without a cache directory.
lathe_context_options no_disk();

struct MatmulForm {
  lathe_dtype dtype = LATHE_F32, out = LATHE_F32;
  bool transposed_a = false, transposed_b = false;
  bool everything = false;  // beta, bias, activation and residual
  lathe_activation activation = LATHE_ACTIVATION_NONE;
  int64_t m = 77, n = 200, k = 333;
  int64_t scaled = 0;  // A and B have scales of so many elements: f32 of 128, powers of two of 32
};
// `everything` brings operands of the dtype of D.
lathe_matmul_desc describe_matmul(const MatmulForm& form);
Plan plan_matmul(const Device& device, const MatmulForm& form, int32_t split_k, int32_t candidate = 0);

struct GpuCode {
  Recipe recipe;
  KernelTable kernels;  // empty if the PTX was not assembled
  std::string text;     // PTX or AMD assembly
  Json metadata;
};

// Compiles the plan and reads the code. Throws with the library's message on failure, and if ptxas is present but the
// PTX was not assembled.
GpuCode compile_gpu(const Plan& plan);

}  // namespace lathe
