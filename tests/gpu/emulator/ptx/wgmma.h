// Matrix products of a warpgroup in flight.
//
// A product's accumulators are not written before a wait_group says so, yet the code around it moves them
// between registers, which the assembler makes vanish. So values on their way are followed: a register is
// tagged with the number of the value that it will hold, a plain move copies the tag, and any other access is
// an error.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lathe::ptx {

struct Instruction;

inline constexpr uint32_t kWarpgroup = 128;

// One wgmma.mma_async that was issued and not yet computed.
struct PendingProduct {
  const Instruction* instruction = nullptr;
  uint64_t group = 0;
  uint64_t a_descriptor = 0, b_descriptor = 0;
  bool accumulates = false;
  uint32_t first_value = 0, values = 0;  // the numbers of its accumulators
  // By thread, then accumulator: what it was before, as bits or as the number of the value that it will be.
  std::vector<uint32_t> initial, initial_value;
  // Likewise, how many registers will hold each value; and whether a later product takes them as its start.
  std::vector<uint8_t> holders;
  bool consumed = false;
};

struct WarpgroupMma {
  bool fenced = false;
  uint64_t group = 0;  // the group being filled
  std::vector<PendingProduct> pending;
  uint32_t next_value = 1;
  std::vector<uint32_t> tags;                            // by thread, then slot
  std::array<std::vector<uint32_t>, kWarpgroup> tagged;  // slots that may have a tag

  PendingProduct* owner(uint32_t value) {
    if (value == 0) return nullptr;
    for (PendingProduct& product : pending) {
      if (value - product.first_value < product.values) return &product;
    }
    return nullptr;
  }
};

}  // namespace lathe::ptx
