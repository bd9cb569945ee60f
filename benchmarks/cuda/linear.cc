#include "cuda/linear.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace lathe::bench {
namespace {

// A product of less than this many elements is looked at whole, for one that nobody wrote.
constexpr int64_t kReadWhole = 1 << 20;
constexpr uint32_t kTwoNaNs = 0x7fff7fff;  // in both types

template <typename F>
size_t largest(const std::vector<LinearProblem>& problems, F elements) {
  int64_t most = 1;
  for (const LinearProblem& p : problems) most = std::max(most, elements(p));
  return (static_cast<size_t>(most) * 2 + 3) / 4 * 4;
}

void complain(const std::string& name, const LinearProblem& p, const std::string& what) {
  std::fprintf(stderr, "%s: %s m=%ld n=%ld k=%ld: %s\n", name.c_str(), p.name.c_str(), static_cast<long>(p.m),
               static_cast<long>(p.n), static_cast<long>(p.k), what.c_str());
}

std::string at(int64_t i, int64_t j) { return "(" + std::to_string(i) + ", " + std::to_string(j) + ")"; }

}  // namespace

lathe_matmul_desc matmul_of(const LinearProblem& p, lathe_dtype dtype, const void* a, const void* w,
                            const void* d) {
  return matmul_desc({const_cast<void*>(a), dtype, p.m, p.k},
                     Matrix{const_cast<void*>(w), dtype, p.n, p.k}.transposed(),
                     {const_cast<void*>(d), dtype, p.m, p.n});
}

LinearBench::LinearBench(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& weights,
                         const std::vector<LinearProblem>& problems)
    : gpu_(gpu),
      options_(options),
      weights_(weights),
      activations_(gpu.device, largest(problems, [](const LinearProblem& p) { return p.m * p.k; }),
                   options.dtype, options.seed + 1),
      d_(gpu.device.allocate(largest(problems, [](const LinearProblem& p) { return p.m * p.n; }))) {}

Entry LinearBench::enter(const std::string& name, const LtCall& call, const LinearProblem& p) const {
  try {
    // The check is the first call, outside of a capture: modules load in it.
    if (!is_right(name, call, p)) return {std::nullopt, "WRONG"};
    return {capture_calls(gpu_, name, cold_copies(gpu_, weights_, p.weight_bytes()),
                          [&](size_t i) { call(a(), weights_.copy(p.weight_bytes(), i), d(), gpu_.stream); }),
            ""};
  } catch (const std::exception& e) {
    complain(name, p, e.what());
    return {std::nullopt, "REFUSED"};
  }
}

double LinearBench::probe(const GraphEntrant& entrant) const {
  std::vector<double> seconds;
  for (int round = 0; round < 4; ++round) {
    const double start = now_seconds();
    entrant.graph->replay();
    if (round > 0) seconds.push_back((now_seconds() - start) / entrant.calls);
  }
  return median(seconds);
}

std::vector<uint16_t> LinearBench::read_d(int64_t first, int64_t count) const {
  std::vector<uint16_t> got(static_cast<size_t>(count));
  check(lathe_device_copy(gpu_.device.get(), gpu_.stream, got.data(), d_.as<uint16_t>() + first,
                          got.size() * 2, LATHE_COPY_TO_HOST));
  gpu_.device.synchronize(gpu_.stream);
  return got;
}

bool LinearBench::is_written(const std::string& name, const LinearProblem& p) const {
  if (p.m * p.n > kReadWhole) return true;
  const std::vector<uint16_t> got = read_d(0, p.m * p.n);
  const auto hole = std::find_if(got.begin(), got.end(),
                                 [&](uint16_t x) { return std::isnan(value_of(x, options_.dtype)); });
  if (hole == got.end()) return true;
  const int64_t index = hole - got.begin();
  complain(name, p, at(index / p.n, index % p.n) + " was not written");
  return false;
}

// Poisons D, runs once, compares 64 elements with float64 within the rounding of one store and of f32 sums.
bool LinearBench::is_right(const std::string& name, const LtCall& call, const LinearProblem& p) const {
  gpu_.driver.fill(d(), kTwoNaNs, d_.bytes() / 4, gpu_.stream);
  call(a(), weights_.copy(p.weight_bytes(), 0), d(), gpu_.stream);
  gpu_.device.synchronize(gpu_.stream);
  if (!is_written(name, p)) return false;
  const double half_ulp = options_.dtype == LATHE_BF16 ? 0x1p-8 : 0x1p-11;
  std::mt19937_64 engine(options_.seed + 2);
  for (int sample = 0; sample < 64; ++sample) {
    const auto i = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.m));
    const auto j = static_cast<int64_t>(engine() % static_cast<uint64_t>(p.n));
    double sum = 0, magnitude = 0;
    for (int64_t q = 0; q < p.k; ++q) {
      const double product = activations_.value(static_cast<size_t>(i * p.k + q)) *
                             weights_.value(static_cast<size_t>(j * p.k + q));
      sum += product;
      magnitude += std::fabs(product);
    }
    const double bound =
        half_ulp * std::fabs(sum) + 6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 * magnitude + 1e-30;
    const double value = value_of(read_d(i * p.n + j, 1)[0], options_.dtype);
    if (std::fabs(value - sum) <= bound) continue;
    complain(name, p,
             at(i, j) + " is " + std::to_string(value) + ", expected " + std::to_string(sum) + " within " +
                 std::to_string(bound));
    return false;
  }
  return true;
}

}  // namespace lathe::bench
