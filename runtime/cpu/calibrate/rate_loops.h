// Loops that multiply in registers at the full rate of one core, for the instructions that a target's kernels use.
#pragma once

#include <cstdint>
#include <vector>

#include "core/facts.h"

namespace lathe {

struct RateLoop {
  // Ends the names of its facts: "f32_products_per_second", "all_f32_products_per_second".
  const char* fact;
  const char* instruction;  // "vfmadd231ps zmm"
  double products;          // multiply-adds of elements in one repeat
  void (*run)(int64_t repeats);
};

// The loops of the target's instructions; f32 is the first. The processor must have the target's features, and the
// process its registers (acquire_registers in cpu_features.h).
std::vector<RateLoop> rate_loops(const Target& target);

// A chain of integer additions, each of which takes one cycle and waits for the one before it.
inline constexpr int64_t kAddsPerRepeat = 32;
void run_dependent_adds(int64_t repeats);

}  // namespace lathe
