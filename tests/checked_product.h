// One small product with a known result, for programs that check where the library works.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <vector>

namespace lathe {

// Multiplies integers whose sums are exact in f32. `matmul` runs a lathe_matmul_desc. False: it failed, or a
// sum is wrong.
template <typename Matmul>
bool checked_product(int64_t n, Matmul matmul) {
  constexpr int64_t kM = 3, kK = 33;
  std::vector<float> a(kM * kK), b(static_cast<size_t>(kK * n)), d(static_cast<size_t>(kM * n), -1.0f);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5) - 2;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = kM, desc.n = n, desc.k = kK;
  desc.a.data = a.data(), desc.b.data = b.data(), desc.d.data = d.data();
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  if (matmul(&desc) != LATHE_OK) return false;
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < kK; ++k)
        sum += a[static_cast<size_t>(i * kK + k)] * b[static_cast<size_t>(k * n + j)];
      if (d[static_cast<size_t>(i * n + j)] != sum) return false;
    }
  return true;
}

}  // namespace lathe
