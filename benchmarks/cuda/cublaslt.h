// The peer cuBLASLt, opened at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "lathe/lathe.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * W^T with W stored [n, k], all without padding. `dtype` of A and W: f16 or bf16 (D
// is the same), e4m3 (D is bf16) or i8 (D is i32). Sums are f32, for i8 i32.
struct LtGemm {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_BF16;
};
using LtCall = std::function<void(const void* a, const void* w, void* d, void* stream)>;

class CublasLt {
 public:
  // Opens the library that the loader finds. `driver` must outlive the result. Throws std::runtime_error if
  // it cannot be opened.
  static std::unique_ptr<CublasLt> open(const CudaDriver& driver);
  virtual ~CublasLt() = default;
  // "130200 (/usr/local/cuda/lib64/libcublasLt.so.13)"
  virtual std::string version() const = 0;
  // At most `most` algorithms that its heuristics suggest for the shape, best first. Throws
  // std::runtime_error if a call of the library fails.
  virtual std::vector<LtCall> algorithms(const LtGemm& gemm, int most) = 0;
};

}  // namespace lathe::bench
