// Kernels for described GPUs, compiled through the public API and read back with what their code says of
// itself.
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
  KernelTable kernels;  // empty for PTX that was not assembled
  std::string text;     // PTX, or AMD assembly
  Json metadata;
};

// Compiles the plan and reads the code. Throws what the library says against it, and where PTX was not
// assembled although there is a ptxas.
GpuCode compile_gpu(const Plan& plan);

}  // namespace lathe
