// Kernels for described GPUs, compiled through the public API and read back with what their code says of
// itself.
#pragma once

#include <string>

#include "code_facts.h"
#include "core/recipe.h"
#include "lathe/lathe.hpp"

namespace lathe {

struct GpuCode {
  Recipe recipe;
  KernelTable kernels;  // empty for PTX that was not assembled
  std::string text;     // PTX, or AMD assembly
};

// Why PTX cannot be assembled here, "" if it can. Looks for ptxas on PATH and in /usr/local/cuda*/bin.
const std::string& no_assembler();

// Compiles the plan and, for CUDA, assembles it. Throws std::runtime_error with the assembler's words.
GpuCode compile_gpu(const Plan& plan);

}  // namespace lathe
