// What every CUDA benchmark stands on: a device of the library, a stream, the driver's graphs, operands.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "contest.h"
#include "cuda/driver.h"
#include "cuda/numbers.h"
#include "lathe/lathe.hpp"

namespace lathe::bench {

// Device memory of random_numbers, from one block of a prime length repeated: weights rotate over it and no
// two within the cache's reach start alike.
class DevicePool {
 public:
  DevicePool(const Device& device, size_t bytes, lathe_dtype dtype, uint64_t seed);
  size_t bytes() const { return bytes_; }
  const void* data() const { return memory_.data(); }
  // How many operands of that size it holds, at multiples of 4 KiB.
  size_t copies(size_t operand_bytes) const { return bytes_ / stride(operand_bytes); }
  void* copy(size_t operand_bytes, size_t index) const;
  // Element `i` of copy 0 of anything.
  double value(size_t i) const { return value_of(&block_[i % kBlockElements * size_of(dtype_)], dtype_); }

 private:
  static constexpr size_t kBlockElements = 8388593;
  static size_t stride(size_t operand_bytes) { return (operand_bytes + 4095) / 4096 * 4096; }

  size_t bytes_;
  lathe_dtype dtype_;
  std::vector<uint8_t> block_;
  Buffer memory_;
};

struct Gpu {
  const CudaDriver& driver;
  const Device& device;
  void* stream;
  double read_bandwidth = 0;  // bytes a second, measured in this run
  double matrix_peak = 0;  // operations a second: the most that any entrant reached on a large square product
};

// A replayable graph of `calls` enqueuings and how to time it against others: each replay is one call of the
// contest.
struct GraphEntrant {
  std::string name;
  std::unique_ptr<CudaDriver::Graph> graph;
  int calls = 1;
};
// `call` (its argument the number of the call) often enough for a replay of some milliseconds, and for a turn
// over `copies` of its operands. It must have been called once outside of a capture.
GraphEntrant capture_calls(const Gpu& gpu, const std::string& name, size_t copies,
                           const std::function<void(size_t)>& call);
// How many operands of that size a turn passes through for the next one to find none in the L2, or as many as
// the pool has.
size_t cold_copies(const Gpu& gpu, const DevicePool& pool, size_t operand_bytes);
// Seconds a call: each round replays every entrant once, in an order of its own. The first round is
// discarded.
std::vector<Standing> run_graph_contest(const std::vector<GraphEntrant>& entrants, double seconds);

}  // namespace lathe::bench
