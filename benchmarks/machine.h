// What this machine can do, measured in the run that it stands beside: the roofline's two ceilings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace lathe {
class WorkerPool;
}

namespace lathe::bench {

struct Machine {
  std::string name;
  size_t last_level_cache_bytes = 0;  // of the largest cache the system reports
  size_t memory_bytes = 0;
};
Machine describe_machine();

// Runs body(t) on `threads` threads, the caller's included, and returns when all have.
void on_threads(int threads, const std::function<void(int)>& body);

// Threads of an entrant, the caller's included, which wait and wake as Lathe's do.
class Team {
 public:
  explicit Team(int threads);
  ~Team();
  int threads() const { return threads_; }
  // Runs body(i) of every i in [0, count), each on the thread that is free, and returns when all have.
  void run(int64_t count, absl::FunctionRef<void(int64_t)> body) const;

 private:
  const int threads_;
  std::unique_ptr<WorkerPool> pool_;
};

// Reads memory, by as many threads as Lathe has.
class Reader {
 public:
  // Finds out on [data, data + bytes) in how many streams a core reads fastest.
  Reader(const void* data, size_t bytes, int threads);

  // Bytes per second of the best of a few sweeps, as a ceiling must not be what a busy machine left over.
  double bytes_per_second() const { return bytes_per_second_; }
  // Once over [data, data + bytes): an entrant beside whoever has to read as much.
  void read(const void* data, size_t bytes) const;

 private:
  const Team team_;
  void (*read_)(const uint8_t* data, size_t bytes) = nullptr;
  double bytes_per_second_ = 0;
};
// f32 operations per second of independent fused multiply-adds in registers.
double measure_fma_peak(int threads);

// Memory to take cold operands from: `bytes` of it, on huge pages where the system grants them, filled with
// N(0, 1), of bytes its 32-fold. kQ4: weights of 4 bits in blocks of 32 by A of f32, kQ4Int8: by A rounded to
// bytes. kF16Weights, kBF16Weights: by A of f32; kBF16Rounded: by A of f32 rounded to bf16. Of the others A
// has the weights' dtype.
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
Element activations_of(Element weights);  // what A's elements are like
size_t weight_bytes(Element element, size_t elements);
class Pool {
 public:
  Pool(size_t bytes, uint64_t seed);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void fill(Element element);
  // A for weights of that kind: `count` numbers like the pool's, in A's dtype.
  std::vector<char> activations(Element weights, size_t count);
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // How many operands of that size fit, at least 1 if one does; their starts are 4 KiB apart at least.
  size_t copies(size_t operand_bytes) const;
  void* copy(size_t operand_bytes, size_t index) const;

 private:
  // One prime-length block of fresh numbers, repeated: no two operands start alike.
  void repeat_block(Element element, void* to, size_t bytes);
  size_t stride(size_t operand_bytes) const { return (operand_bytes + step_ - 1) / step_ * step_; }
  size_t bytes_;
  void* data_;
  uint64_t seed_;
  size_t step_ = 4096;  // between operands; a multiple of a block's bytes too
};

}  // namespace lathe::bench
