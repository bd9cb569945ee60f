// cuBLASLt as a peer, opened at run time; absent where the build found no header or the machine has no
// library.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * W^T, W stored [n, k], all of `dtype` (f16 or bf16) and packed, sums in f32.
struct LtGemm {
  int64_t m = 0, n = 0, k = 0;
  lathe_dtype dtype = LATHE_BF16;
};
using LtCall = std::function<void(const void* a, const void* w, void* d, void* stream)>;

class CublasLt {
 public:
  // Null with the reason on stderr when it cannot be had.
  static std::unique_ptr<CublasLt> open();
  virtual ~CublasLt() = default;
  virtual std::string version() const = 0;
  // Every algorithm that its heuristics name for the shape, its first answer first.
  virtual std::vector<LtCall> algorithms(const LtGemm& gemm) = 0;
};

}  // namespace lathe::bench
