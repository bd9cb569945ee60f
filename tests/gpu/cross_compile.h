// Compiles kernels for described GPUs through the public API and reads the metadata in their code.
#pragma once

#include <string>

#include "assembler.h"
#include "code_facts.h"
#include "core/json.h"
#include "core/recipe.h"
#include "lathe/lathe.hpp"

namespace lathe {

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
