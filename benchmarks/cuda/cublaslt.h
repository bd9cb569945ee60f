// cuBLASLt as a peer, opened at run time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/driver.h"
#include "lathe/lathe.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * W^T, W stored [n, k], packed. A and W are of `dtype`: f16 or bf16 (D alike), e4m3
// (D in bf16) or i8 (D in i32, summed in i32; all else is summed in f32).
struct LtGemm {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_BF16;
};
using LtCall = std::function<void(const void* a, const void* w, void* d, void* stream)>;

class CublasLt {
 public:
  // By the loader's search; `driver` must live as long. Throws std::runtime_error where it cannot be had.
  static std::unique_ptr<CublasLt> open(const CudaDriver& driver);
  virtual ~CublasLt() = default;
  // "130200 (/usr/local/cuda/lib64/libcublasLt.so.13)"
  virtual std::string version() const = 0;
  // The algorithms that its heuristics name for the shape, `most` of them, its first answer first. A call
  // that it refuses throws std::runtime_error.
  virtual std::vector<LtCall> algorithms(const LtGemm& gemm, int most) = 0;
};

}  // namespace lathe::bench
