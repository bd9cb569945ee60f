// Shared by the CUDA benchmarks: a device and a stream, operands, and timing by replayed graphs.
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

// Device memory filled with random_numbers(). Weights rotate over it. It repeats one block of prime length,
// so that no two operands start alike.
class DevicePool {
 public:
  DevicePool(const Device& device, size_t bytes, lathe_dtype dtype, uint64_t seed);
  size_t bytes() const { return bytes_; }
  const void* data() const { return memory_.data(); }
  // How many operands of that size it holds. Each starts at a multiple of 4 KiB.
  size_t copies(size_t operand_bytes) const { return bytes_ / stride(operand_bytes); }
  void* copy(size_t operand_bytes, size_t index) const;
  // Element `i` of the pool, which is element `i` of any operand's copy 0.
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
  double read_bandwidth = 0;  // bytes per second, measured in this run
  double matrix_peak = 0;     // operations per second, see measure_matrix_peak()
};

// A graph of `calls` calls, timed against others. One replay is one turn of the contest.
struct GraphEntrant {
  std::string name;
  std::unique_ptr<CudaDriver::Graph> graph;
  int calls = 1;
};
// Captures call(0), call(1), ... as a graph: enough calls for a replay of some milliseconds and for all
// `copies` of the operands. `call` must have run once outside of a capture, which loads its module.
GraphEntrant capture_calls(const Gpu& gpu, const std::string& name, size_t copies,
                           const std::function<void(size_t)>& call);
// How many operands of that size a replay must use so that the next replay finds none of them in L2, at most
// as many as the pool holds.
size_t cold_copies(const Gpu& gpu, const DevicePool& pool, size_t operand_bytes);
// Returns seconds per call. Each round replays every entrant once, in a random order. The first round is
// discarded.
std::vector<Standing> run_graph_contest(const std::vector<GraphEntrant>& entrants, double seconds);

}  // namespace lathe::bench
