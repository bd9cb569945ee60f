#include "cuda/gpu.h"

#include <algorithm>
#include <cmath>

namespace lathe::bench {

DevicePool::DevicePool(const Device& device, size_t bytes, lathe_dtype dtype, uint64_t seed)
    : bytes_(bytes),
      dtype_(dtype),
      block_(normal_numbers(8388593, dtype, seed)),
      memory_(device.allocate(bytes)) {
  auto* at = static_cast<char*>(memory_.data());
  for (size_t done = 0; done < bytes;) {
    const size_t next = std::min(bytes - done, block_.size() * sizeof(uint16_t));
    check(lathe_device_copy(device.get(), nullptr, at + done, block_.data(), next, LATHE_COPY_TO_DEVICE));
    done += next;
  }
  device.synchronize();
}

void* DevicePool::copy(size_t operand_bytes, size_t index) const {
  return static_cast<char*>(memory_.data()) + stride(operand_bytes) * (index % copies(operand_bytes));
}

std::vector<Standing> run_graph_contest(const std::vector<GraphEntrant>& entrants, double seconds) {
  std::vector<Entrant> turns;
  for (const GraphEntrant& entrant : entrants) {
    turns.push_back({entrant.name, [&graph = *entrant.graph] { graph.replay(); }});
  }
  ContestOptions options;
  options.seconds = seconds;
  options.round_seconds = 0;  // a replay is a round
  std::vector<Standing> standings = run_contest(turns, options);
  for (size_t i = 0; i < standings.size(); ++i) {
    standings[i].seconds /= entrants[i].calls;
    for (double& round : standings[i].rounds) round /= entrants[i].calls;
  }
  return standings;
}

GraphEntrant capture_calls(const Gpu& gpu, const std::string& name, size_t copies,
                           const std::function<void(size_t)>& call) {
  constexpr double kReplaySeconds = 4e-3;
  constexpr double kMost = 1000;  // nodes of a graph
  const auto capture = [&](int calls) {
    return std::make_unique<CudaDriver::Graph>(gpu.driver, gpu.stream, [&] {
      for (int i = 0; i < calls; ++i) call(static_cast<size_t>(i));
    });
  };
  const auto few = capture(4);
  few->replay();
  const double start = now_seconds();
  few->replay();
  const double wanted = std::max(4 * kReplaySeconds / (now_seconds() - start), static_cast<double>(copies));
  const int calls = static_cast<int>(std::clamp(std::ceil(wanted), 1.0, kMost));
  return {name, capture(calls), calls};
}

size_t cold_copies(const Gpu& gpu, const DevicePool& pool, size_t operand_bytes) {
  const size_t wanted = 4 * static_cast<size_t>(gpu.driver.l2_bytes()) / operand_bytes + 1;
  return std::min(wanted, pool.copies(operand_bytes));
}

}  // namespace lathe::bench
