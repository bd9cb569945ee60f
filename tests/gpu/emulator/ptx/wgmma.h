// The matrix products of a warpgroup in flight.
//
// The accumulators of a product are written only by a wait_group, but the code in between may move them between
// registers (the assembler removes such moves). So each accumulator in flight has a number, and the register that will
// hold it carries that number as a tag. A plain move copies the tag; any other access to the register is an error.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lathe::ptx {

struct Instruction;

inline constexpr uint32_t kWarpgroup = 128;

// A wgmma.mma_async that was issued and is not computed yet.
struct PendingProduct {
  const Instruction* instruction = nullptr;
  uint64_t group = 0;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulates = false;
  uint32_t first_value = 0, values = 0;  // the numbers of its accumulators
  // For each thread and accumulator: its initial value, either the bits or the number of a value in flight.
  std::vector<uint32_t> initial, initial_value;
  // For each thread and accumulator: how many registers will hold the result.
  std::vector<uint8_t> holders;
  bool consumed = false;  // a later product starts from these results
};

struct WarpgroupMma {
  bool fenced = false;
  uint64_t group = 0;  // the group being filled
  std::vector<PendingProduct> pending;
  uint32_t next_value = 1;
  std::vector<uint32_t> tags;                            // for each thread and slot
  std::array<std::vector<uint32_t>, kWarpgroup> tagged;  // slots that may carry a tag

  PendingProduct* owner(uint32_t value) {
    if (value == 0) return nullptr;
    for (PendingProduct& product : pending) {
      if (value - product.first_value < product.values) return &product;
    }
    return nullptr;
  }
};

}  // namespace lathe::ptx
