#include "cuda/linear.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>

namespace lathe::bench {
namespace {

// In results of up to this many elements, every element is checked to have been written.
constexpr int64_t kReadWhole = 1 << 20;
constexpr uint32_t kPoison =
    0x7fff7fff;  // two 16-bit NaNs; as an i32 it is larger than every i8 sum up to K = 131071

template <typename F>
size_t largest(const std::vector<LinearProblem>& problems, size_t element_bytes, F elements) {
  int64_t most = 1;
  for (const LinearProblem& p : problems) most = std::max(most, elements(p));
  return (static_cast<size_t>(most) * element_bytes + 3) / 4 * 4;
}

bool is_poison(double value, lathe_dtype dtype) {
  return dtype == LATHE_I32 ? value == kPoison : std::isnan(value);
}

void complain(const std::string& name, const LinearProblem& p, const std::string& what) {
  std::fprintf(stderr, "%s: %s m=%ld n=%ld k=%ld: %s\n", name.c_str(), p.name.c_str(), static_cast<long>(p.m),
               static_cast<long>(p.n), static_cast<long>(p.k), what.c_str());
}

std::string at(int64_t i, int64_t j) { return "(" + std::to_string(i) + ", " + std::to_string(j) + ")"; }

}  // namespace

lathe_matmul_desc matmul_of(const LinearProblem& p, const void* a, const void* w, const void* d,
                            const lathe_tuning* tuning) {
  CallOptions options;
  options.next = reinterpret_cast<const lathe_chain*>(tuning);
  options.dependent_launch = p.dependent_launch;
  return matmul_desc({const_cast<void*>(a), p.dtype, p.m, p.k},
                     Matrix{const_cast<void*>(w), p.dtype, p.n, p.k}.transposed(),
                     {const_cast<void*>(d), result_of(p.dtype), p.m, p.n}, {}, options);
}

lathe_tuning forced(int rank) {
  lathe_tuning tuning = LATHE_TUNING_INIT;
  tuning.candidate = rank;
  return tuning;
}

LinearBench::LinearBench(const Gpu& gpu, const CudaBenchOptions& options, const DevicePool& weights,
                         const std::vector<LinearProblem>& problems)
    : gpu_(gpu),
      options_(options),
      weights_(weights),
      activations_(
          gpu.device,
          largest(problems, size_of(options.dtype), [](const LinearProblem& p) { return p.m * p.k; }),
          options.dtype, options.seed + 1),
      d_(gpu.device.allocate(largest(problems, size_of(result_of(options.dtype)),
                                     [](const LinearProblem& p) { return p.m * p.n; }))) {}

Entry LinearBench::enter(const std::string& name, const LtCall& call, const LinearProblem& p) const {
  try {
    // The check makes the first call, which loads the module; that is not allowed during a capture.
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

std::vector<uint8_t> LinearBench::read_d(int64_t first, int64_t count) const {
  const size_t size = size_of(result_of(options_.dtype));
  std::vector<uint8_t> got(static_cast<size_t>(count) * size);
  check(lathe_device_copy(gpu_.device.get(), gpu_.stream, got.data(),
                          d_.as<uint8_t>() + static_cast<size_t>(first) * size, got.size(),
                          LATHE_COPY_TO_HOST));
  gpu_.device.synchronize(gpu_.stream);
  return got;
}

bool LinearBench::is_written(const std::string& name, const LinearProblem& p) const {
  if (p.m * p.n > kReadWhole) return true;
  const std::vector<uint8_t> got = read_d(0, p.m * p.n);
  const lathe_dtype dtype = result_of(p.dtype);
  for (int64_t index = 0; index < p.m * p.n; ++index) {
    if (!is_poison(value_of(&got[static_cast<size_t>(index) * size_of(dtype)], dtype), dtype)) continue;
    complain(name, p, at(index / p.n, index % p.n) + " was not written");
    return false;
  }
  return true;
}

const std::vector<LinearBench::Sample>& LinearBench::samples_of(const LinearProblem& p) const {
  if (!samples_.empty() && sampled_.m == p.m && sampled_.n == p.n && sampled_.k == p.k) return samples_;
  samples_.clear();
  sampled_ = p;
  // Error of f32 sums. For fp8, Hopper's tensor cores keep about 14 bits within a block of K
  // (src/reference/matmul.h); adding blocks in f32 limits that error to 2^-12. Sums of i8 are exact.
  const double of_sums = p.dtype == LATHE_I8 ? 0
                                             : 6 * std::sqrt(static_cast<double>(p.k) + 4) * 0x1p-24 +
                                                   (p.dtype == LATHE_F8_E4M3 ? 0x1p-12 : 0);
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
    const double of_rounding =
        reference::is_integer(result_of(p.dtype)) ? 0 : reference::rounding(result_of(p.dtype));
    const double bound = of_rounding * std::fabs(sum) + of_sums * magnitude + 1e-30;
    samples_.push_back({i, j, sum, bound});
  }
  return samples_;
}

// Poisons D, runs once and compares 64 elements with float64. The bound covers the rounding of the stored
// value and of the sums.
bool LinearBench::is_right(const std::string& name, const LtCall& call, const LinearProblem& p) const {
  gpu_.driver.fill(d(), kPoison, d_.bytes() / 4, gpu_.stream);
  call(a(), weights_.copy(p.weight_bytes(), 0), d(), gpu_.stream);
  gpu_.device.synchronize(gpu_.stream);
  if (!is_written(name, p)) return false;
  for (const Sample& s : samples_of(p)) {
    const double value = value_of(read_d(s.i * p.n + s.j, 1).data(), result_of(p.dtype));
    if (std::fabs(value - s.sum) <= s.bound) continue;
    complain(name, p,
             at(s.i, s.j) + " is " + std::to_string(value) + ", expected " + std::to_string(s.sum) +
                 " within " + std::to_string(s.bound));
    return false;
  }
  return true;
}

}  // namespace lathe::bench
