#include "cuda/gpu.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace lathe::bench {

DevicePool::DevicePool(const Device& device, size_t bytes, lathe_dtype dtype, uint64_t seed)
    : bytes_(bytes),
      dtype_(dtype),
      block_(random_numbers(kBlockElements, dtype, seed)),
      memory_(device.allocate(bytes)) {
  auto* at = static_cast<char*>(memory_.data());
  for (size_t done = 0; done < bytes;) {
    const size_t next = std::min(bytes - done, block_.size());
    check(lathe_device_copy(device.get(), nullptr, at + done, block_.data(), next, LATHE_COPY_TO_DEVICE));
    done += next;
  }
  device.synchronize();
}

void* DevicePool::copy(size_t operand_bytes, size_t index) const {
  return static_cast<char*>(memory_.data()) + stride(operand_bytes) * (index % copies(operand_bytes));
}

// run_contest() is not used because it waits until no thread of this process runs; here threads compile
// ahead.
std::vector<Standing> run_graph_contest(const std::vector<GraphEntrant>& entrants, double seconds) {
  constexpr int kFewest = 7, kMost = 200;
  std::vector<Standing> standings(entrants.size());
  for (size_t e = 0; e < entrants.size(); ++e) standings[e].name = entrants[e].name;
  std::vector<size_t> order(entrants.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);  // any fixed sequence
  const double begin = now_seconds();
  for (int round = 0; round < kMost; ++round) {
    if (round > kFewest && now_seconds() - begin > seconds) break;
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t e : order) {
      const double start = now_seconds();
      entrants[e].graph->replay();
      if (round > 0) standings[e].rounds.push_back((now_seconds() - start) / entrants[e].calls);
    }
  }
  for (Standing& standing : standings) standing.seconds = median(standing.rounds);
  return standings;
}

GraphEntrant capture_calls(const Gpu& gpu, const std::string& name, size_t copies,
                           const std::function<void(size_t)>& call) {
  constexpr double kReplaySeconds = 4e-3;
  constexpr double kMost = 1000;  // nodes per graph
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
