// Lathe as an entrant: weights as in the file, or packed.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "huge_memory.h"
#include "lathe/lathe.h"
#include "peer.h"

namespace lathe::bench {

lathe_dtype gguf_dtype(const std::string& format);  // LATHE_DTYPE_NONE: unknown

class LatheProduct {
 public:
  // The device must outlive it. Math is INT8.
  LatheProduct(lathe_device* device, const GgufWeight& weight) : device_(device), weight_(weight) {}

  // Packs one copy; the others take the same bytes. False: this version does not pack the format.
  bool pack();
  bool is_packed() const { return layout_ != 0; }
  // The least of several turns, and that of copying the weight.
  double pack_seconds() const { return pack_seconds_; }
  double copy_seconds() const { return copy_seconds_; }
  // Returns false, and prints the reason once, if the call fails.
  bool run(int64_t m, const float* a, float* d, size_t copy);

 private:
  lathe_matmul_desc describe(int64_t m, const float* a, float* d, size_t copy) const;

  lathe_device* device_;
  const GgufWeight& weight_;
  uint32_t layout_ = 0;
  double pack_seconds_ = std::numeric_limits<double>::infinity(), copy_seconds_ = pack_seconds_;
  std::vector<HugeMemory> packed_;
  bool has_failed_ = false;
};

}  // namespace lathe::bench
