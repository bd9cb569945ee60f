// Tensor memory of a block, and the tensor core's work in flight (PTX ISA, section tcgen05).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

namespace lathe::ptx {

inline constexpr uint32_t kTensorLanes = 128, kTensorColumns = 512;

// Products and copies are done in the order of issue: at once, or when a commit that follows them completes.
struct TensorWork {
  uint64_t number = 0;
  std::function<bool()> perform;
};

struct TensorMemory {
  std::vector<uint32_t> words = std::vector<uint32_t>(kTensorLanes * kTensorColumns, 0xffffffff);
  std::array<uint64_t, kTensorColumns> written{};    // the time of the last write to each column
  std::array<uint32_t, kTensorColumns> allocated{};  // columns of the allocation that begins here
  bool relinquished = false;
  std::deque<TensorWork> work;
  uint64_t issued = 0;
  // For each thread: the time of its last tcgen05.fence::after_thread_sync; the registers of loads without a wait.
  std::vector<uint64_t> fenced;
  struct Load {
    uint32_t slot, value;
  };
  std::vector<std::vector<Load>> loads;

  uint32_t& at(uint32_t lane, uint32_t column) { return words[lane * kTensorColumns + column]; }
  bool is_allocated(uint32_t column, uint32_t count) const;
  bool is_empty() const;
};

}  // namespace lathe::ptx
