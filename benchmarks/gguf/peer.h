// A library that multiplies GGUF weights, behind an interface without its headers. Each peer is a shared object that
// is opened with RTLD_LOCAL, because ggml and ik_llama.cpp define the same symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lathe::bench {

// Copies of one weight, byte for byte as in a GGUF file: n rows of k elements.
struct GgufWeight {
  std::string format;  // "q4_k"
  int64_t n = 0, k = 0;
  std::vector<void*> copies;
};

// D (m by n) = A (m by k) times the transposed weight, in f32 and row-major. A and D are fixed.
class GgufProduct {
 public:
  virtual ~GgufProduct() = default;
  virtual void run(size_t copy) = 0;
};

// The copies as the peer's kernels read them. "plain" reads the memory of GgufWeight, which must outlive it.
class GgufLoaded {
 public:
  virtual ~GgufLoaded() = default;
  virtual std::unique_ptr<GgufProduct> prepare(int64_t m, int threads, float* a, float* d) = 0;
};

// Experts of a mixture, byte for byte as in a GGUF file: `groups` weights of n rows, one after the other.
struct ExpertsWeight {
  std::string format;
  int64_t groups = 0, n = 0, k = 0;
  void* data = nullptr;
};

// For each of m tokens and each of its `used` slots: D = A times the transposed weight of the slot's expert, in f32. D
// has m * used rows. A has as many, or one row for each token if `shares_a`. Memory is aligned to 64 bytes.
struct ExpertsCalls {
  int64_t m = 0, used = 0;
  bool shares_a = false;
  int threads = 1;
  float *a = nullptr, *d = nullptr;
  std::vector<int32_t*> routings;  // experts of all slots, token by token; one array for each call
};
class ExpertsProduct {
 public:
  virtual ~ExpertsProduct() = default;
  virtual void run(size_t routing) = 0;
};
class ExpertsLoaded {
 public:
  virtual ~ExpertsLoaded() = default;
  virtual std::unique_ptr<ExpertsProduct> prepare(const ExpertsCalls& calls) = 0;
};

class GgufPeer {
 public:
  virtual ~GgufPeer() = default;
  virtual std::string name() const = 0;
  virtual std::vector<std::string> settings() const = 0;
  // Of a whole number of blocks. 0: this peer does not have the format.
  virtual size_t bytes(const std::string& format, int64_t elements) const = 0;
  virtual void quantise(const std::string& format, const float* from, int64_t rows, int64_t k, void* to) = 0;
  virtual void dequantise(const std::string& format, const void* from, int64_t elements, float* to) = 0;
  // Null if the setting does not support the weight.
  virtual std::unique_ptr<GgufLoaded> load(const std::string& setting, const GgufWeight& weight) = 0;
  // Null if the setting does not support such experts. "plain" reads the memory of `weight`.
  virtual std::unique_ptr<ExpertsLoaded> load_experts(const std::string& setting,
                                                      const ExpertsWeight& weight) {
    (void)setting, (void)weight;
    return nullptr;
  }
};

}  // namespace lathe::bench

// Each shared object defines it. The peer lives as long as the process.
extern "C" __attribute__((visibility("default"))) lathe::bench::GgufPeer* lathe_gguf_peer();
