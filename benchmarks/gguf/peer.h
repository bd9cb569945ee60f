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
};

}  // namespace lathe::bench

// Each shared object defines it. The peer lives as long as the process.
extern "C" __attribute__((visibility("default"))) lathe::bench::GgufPeer* lathe_gguf_peer();
