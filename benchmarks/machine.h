// Describes this machine, measures the two ceilings of the roofline and provides operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lathe/lathe.h"

namespace lathe {
class WorkerPool;
}

namespace lathe::bench {

struct Machine {
  std::string name;
  size_t last_level_cache_bytes = 0;  // the largest cache that the system reports
  size_t memory_bytes = 0;
};
Machine describe_machine();

// Runs body(t) for t in [0, threads), one of them on the caller's thread, and waits for all.
void on_threads(int threads, const std::function<void(int)>& body);

// Threads of an entrant, including the caller's. They wait and wake like Lathe's workers.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  int threads() const { return threads_; }
  // Runs body(i) for every i in [0, count) on the next free thread and waits for all.
  void run(int64_t count, absl::FunctionRef<void(int64_t)> body) const;

 private:
  const int threads_;
  std::unique_ptr<WorkerPool> pool_;
};

// Reads memory with as many threads as Lathe uses.
class Reader {
 public:
  // Times [data, data + bytes) with several numbers of streams per core and keeps the fastest.
  Reader(const void* data, size_t bytes, int threads);

  // The best of a few sweeps: a ceiling must not depend on what a busy machine leaves over.
  double bytes_per_second() const { return bytes_per_second_; }
  // Reads [data, data + bytes) once. Runs as an entrant beside kernels that must read the same bytes.
  void read(const void* data, size_t bytes) const;

 private:
  const Team team_;
  void (*read_)(const uint8_t* data, size_t bytes) = nullptr;
  double bytes_per_second_ = 0;
};
// f32 operations per second of independent FMAs on registers.
double measure_fma_peak(int threads);

// The type of the weights. kQ4: 4-bit weights in blocks of 32. A has the dtype of the weights for the first
// four, and is f32 for the rest. For kQ4Int8 Lathe may round A to int8, for kBF16Rounded to bf16.
enum class Element { kF32, kF16, kBF16, kI8, kQ4, kQ4Int8, kF16Weights, kBF16Weights, kBF16Rounded };
struct NamedElement {
  const char* name;
  Element element;
};
inline constexpr NamedElement kNamedElements[] = {{"f32", Element::kF32},
                                                  {"f16", Element::kF16},
                                                  {"bf16", Element::kBF16},
                                                  {"i8", Element::kI8},
                                                  {"q4_0", Element::kQ4},
                                                  {"q4_0_int8", Element::kQ4Int8},
                                                  {"f16_weights", Element::kF16Weights},
                                                  {"bf16_weights", Element::kBF16Weights},
                                                  {"bf16_weights_bf16", Element::kBF16Rounded}};
inline bool is_q4(Element element) { return element == Element::kQ4 || element == Element::kQ4Int8; }
Element activations_of(Element weights);  // the element type of A
lathe_dtype dtype_of(Element element);
size_t weight_bytes(Element element, size_t elements);
// Memory for cold operands, on huge pages if the system grants them. fill() writes numbers of N(0, 1), for i8
// 32 times as large.
class Pool {
 public:
  Pool(size_t bytes, uint64_t seed);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void fill(Element element);
  // `count` random elements of A for weights of that type.
  std::vector<char> activations(Element weights, size_t count);
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // How many operands of that size fit. They start at least 4 KiB apart.
  size_t copies(size_t operand_bytes) const;
  void* copy(size_t operand_bytes, size_t index) const;

 private:
  // Repeats one block of fresh numbers whose length is prime, so that no two operands start alike.
  void repeat_block(Element element, void* to, size_t bytes);
  size_t stride(size_t operand_bytes) const { return (operand_bytes + step_ - 1) / step_ * step_; }
  size_t bytes_;
  void* data_;
  uint64_t seed_;
  size_t step_ = 4096;  // operands start at multiples of it; for q4_0 also a multiple of a block
};

}  // namespace lathe::bench
