#include "machine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <thread>

#include "contest.h"
#include "reference/numbers.h"
#include "runtime/cpu/worker_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lathe::bench {
namespace {

size_t cache_bytes(const std::string& text) {  // "307200K"
  const size_t value = std::strtoull(text.c_str(), nullptr, 10);
  if (text.find('K') != std::string::npos) return value << 10;
  if (text.find('M') != std::string::npos) return value << 20;
  return value;
}

#if defined(__x86_64__)

__attribute__((target("avx512f"))) double fma_loop_512(int64_t iterations) {
  __m512 sums[16];
  for (__m512& sum : sums) {
    sum = _mm512_set1_ps(1.0f);
    asm volatile("" : "+v"(sum));  // hides the value, so that the compiler does not merge equal sums
  }
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (__m512& sum : sums) sum = _mm512_fmadd_ps(sum, x, y);
  }
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_reduce_add_ps(sum);
  volatile float keep = total;
  (void)keep;
  return 16.0 * 16 * 2;  // operations per iteration
}

__attribute__((target("avx2,fma"))) double fma_loop_256(int64_t iterations) {
  __m256 sums[12];
  for (__m256& sum : sums) {
    sum = _mm256_set1_ps(1.0f);
    asm volatile("" : "+x"(sum));
  }
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
  for (int64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (__m256& sum : sums) sum = _mm256_fmadd_ps(sum, x, y);
  }
  alignas(32) float lanes[8];
  float total = 0;
  for (const __m256& sum : sums) {
    _mm256_store_ps(lanes, sum);
    total += lanes[0];
  }
  volatile float keep = total;
  (void)keep;
  return 12.0 * 8 * 2;
}

double fma_loop(int64_t iterations) {
  // LATHE_CPU_TARGET may restrict Lathe to fewer instructions; the ceiling uses the same ones.
  const char* target = std::getenv("LATHE_CPU_TARGET");
  const bool narrow = target != nullptr && std::strstr(target, "avx512") == nullptr;
  if (!narrow && __builtin_cpu_supports("avx512f")) return fma_loop_512(iterations);
  return fma_loop_256(iterations);
}

#else

using Vector = float __attribute__((vector_size(16)));
double fma_loop(int64_t iterations) {
  Vector sums[24];
  for (Vector& sum : sums) {
    sum = Vector{1, 1, 1, 1};
    asm volatile("" : "+w"(sum));
  }
  const Vector x = {0.999f, 0.999f, 0.999f, 0.999f}, y = {1e-3f, 1e-3f, 1e-3f, 1e-3f};
  for (int64_t i = 0; i < iterations; ++i) {
#pragma clang loop unroll(full)
    for (Vector& sum : sums) sum = sum * x + y;
  }
  float total = 0;
  for (const Vector& sum : sums) total += sum[0];
  volatile float keep = total;
  (void)keep;
  return 24.0 * 4 * 2;
}

#endif

// Reads `data` as kStreams parts side by side and sums their 64-byte lines. The number of streams that a core
// reads fastest differs between machines.
template <size_t kStreams>
void read_all(const uint8_t* data, size_t bytes) {
  using Line = uint64_t __attribute__((vector_size(64), aligned(16)));
  constexpr size_t kTurn = 4;  // lines of one stream at a time
  Line sums[kTurn] = {};
  const size_t part = bytes / sizeof(Line) / kStreams / kTurn * kTurn;
  const auto* lines = reinterpret_cast<const Line*>(data);
  for (size_t i = 0; i < part; i += kTurn) {
    for (size_t stream = 0; stream < kStreams; ++stream) {
#pragma clang loop unroll(full)
      for (size_t s = 0; s < kTurn; ++s) sums[s] += lines[stream * part + i + s];
    }
  }
  uint64_t total = 0;
  for (const Line& sum : sums) total += sum[0] + sum[7];
  volatile uint64_t keep = total;
  (void)keep;
}

}  // namespace

Machine describe_machine() {
  Machine machine;
  std::ifstream cpu("/proc/cpuinfo");
  for (std::string line; std::getline(cpu, line);) {
    if (line.compare(0, 10, "model name") == 0) {
      machine.name = line.substr(line.find(':') + 2);
      break;
    }
  }
  for (int index = 0; index < 8; ++index) {
    std::ifstream size("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::string text;
    if (size >> text)
      machine.last_level_cache_bytes = std::max(machine.last_level_cache_bytes, cache_bytes(text));
  }
  machine.memory_bytes =
      static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return machine;
}

void on_threads(int threads, const std::function<void(int)>& body) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  body(0);
  for (std::thread& other : others) other.join();
}

Team::Team(int threads) : threads_(threads), pool_(std::make_unique<WorkerPool>(threads, threads)) {}

Team::~Team() = default;

void Team::run(int64_t count, absl::FunctionRef<void(int64_t)> body) const {
  if (threads_ == 1 || count == 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  ArgumentBlock args;
  args.b = &body;
  TaskSet tasks;
  tasks.args = &args;
  tasks.count = count;
  tasks.task = [](const ArgumentBlock* of, int64_t i) {
    (*static_cast<const absl::FunctionRef<void(int64_t)>*>(of->b))(i);
  };
  pool_->run(tasks);
}

Reader::Reader(const void* data, size_t bytes, int threads) : team_(threads) {
  auto* fastest = read_all<1>;
  for (auto* way : {read_all<1>, read_all<4>, read_all<8>, read_all<16>}) {
    read_ = way;
    for (int sweep = 0; sweep < 3; ++sweep) {
      const double start = now_seconds();
      read(data, bytes);
      const double rate = static_cast<double>(bytes) / (now_seconds() - start);
      if (rate > bytes_per_second_) bytes_per_second_ = rate, fastest = way;
    }
  }
  read_ = fastest;
}

void Reader::read(const void* data, size_t bytes) const {
  const int64_t tasks = team_.threads() == 1 ? 1 : 4 * team_.threads();
  const size_t part = tasks == 1 ? bytes : bytes / static_cast<size_t>(tasks) & ~size_t{4095};
  team_.run(tasks, [&](int64_t task) {
    read_(static_cast<const uint8_t*>(data) + static_cast<size_t>(task) * part, part);
  });
}

double measure_fma_peak(int threads) {
  constexpr int64_t kIterations = 4'000'000;
  double operations = 0;
  std::vector<double> seconds;
  for (int run = 0; run < 5; ++run) {
    const double start = now_seconds();
    on_threads(threads, [&](int t) {
      const double per_iteration = fma_loop(kIterations);
      if (t == 0) operations = per_iteration * kIterations;
    });
    seconds.push_back(now_seconds() - start);
  }
  return operations * threads / *std::min_element(seconds.begin(), seconds.end());
}

Pool::Pool(size_t bytes, uint64_t seed) : bytes_(bytes & ~size_t{(2 << 20) - 1}), seed_(seed) {
  data_ = std::aligned_alloc(2 << 20, bytes_);
  if (data_ == nullptr) throw std::bad_alloc();
  madvise(data_, bytes_, MADV_HUGEPAGE);
}

Pool::~Pool() { std::free(data_); }

Element activations_of(Element weights) {
  switch (weights) {
    case Element::kF32:
    case Element::kF16:
    case Element::kBF16:
    case Element::kI8: return weights;
    default: return Element::kF32;
  }
}

lathe_dtype dtype_of(Element element) {
  constexpr lathe_dtype kDtypes[] = {LATHE_F32,  LATHE_F16, LATHE_BF16, LATHE_I8,  LATHE_Q4_0,
                                     LATHE_Q4_0, LATHE_F16, LATHE_BF16, LATHE_BF16};  // indexed by Element
  return kDtypes[static_cast<int>(element)];
}

size_t weight_bytes(Element element, size_t elements) {
  return elements / static_cast<size_t>(reference::block_elements(dtype_of(element))) *
         reference::bytes_of(dtype_of(element));
}

// The i-th 16-bit word of random q4_0 blocks. A block has 9 words; the first is its scale, about 1/8.
static void write_q4_word(size_t i, std::mt19937_64& engine, uint8_t* to) {
  if (i % 9 == 0)
    return reference::store(to, LATHE_F16, 0, 0.125 * std::normal_distribution<float>()(engine));
  const auto bits = static_cast<uint16_t>(engine());
  std::memcpy(to, &bits, sizeof bits);
}

// Writes one number as `element`, for q4_0 the i-th word.
static void write_number(Element element, float x, size_t i, std::mt19937_64& engine, uint8_t* to) {
  if (is_q4(element)) return write_q4_word(i, engine, to);
  reference::store(to, dtype_of(element), 0,
                   element == Element::kI8 ? std::max(-127.0f, std::min(127.0f, 32 * x)) : x);
}

void Pool::repeat_block(Element element, void* to, size_t bytes) {
  const size_t numbers = is_q4(element) ? 9 * 116'507 : 1'048'573;
  const size_t number_bytes = is_q4(element) ? 2 : weight_bytes(element, 1);
  std::mt19937_64 engine(seed_++);
  std::normal_distribution<float> normal;
  std::vector<uint8_t> block(std::min(numbers * number_bytes, bytes));
  for (size_t i = 0; i < block.size() / number_bytes; ++i)
    write_number(element, normal(engine), i, engine, block.data() + i * number_bytes);
  for (size_t at = 0; at < bytes; at += block.size())
    std::memcpy(static_cast<uint8_t*>(to) + at, block.data(), std::min(block.size(), bytes - at));
}

void Pool::fill(Element element) {
  step_ = is_q4(element) ? 9 * 4096 : 4096;
  repeat_block(element, data_, bytes_);
}

std::vector<char> Pool::activations(Element weights, size_t count) {
  const Element element = activations_of(weights);
  std::vector<char> a(weight_bytes(element, count));
  if (!a.empty()) repeat_block(element, a.data(), a.size());
  return a;
}

size_t Pool::copies(size_t operand_bytes) const {
  return operand_bytes > bytes_ ? 0 : std::max<size_t>(1, bytes_ / stride(operand_bytes));
}

void* Pool::copy(size_t operand_bytes, size_t index) const {
  return static_cast<uint8_t*>(data_) + index % copies(operand_bytes) * stride(operand_bytes);
}

}  // namespace lathe::bench
