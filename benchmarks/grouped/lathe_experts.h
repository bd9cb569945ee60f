// Lathe's grouped product as an entrant: weights as in the file, or packed.
#pragma once

#include "../gguf/huge_memory.h"
#include "../gguf/peer.h"
#include "lathe/lathe.h"

namespace lathe::bench {

class LatheExperts {
 public:
  // The device must outlive it. Math is BF16 for bf16 weights, INT8 for block formats.
  LatheExperts(lathe_device* device, const ExpertsWeight& weight);

  // False: this version does not pack the format.
  bool pack();
  bool is_packed() const { return layout_ != 0; }
  // Returns false, and prints the reason once, if the call fails.
  bool run(const ExpertsCalls& calls, size_t routing);

 private:
  lathe_device* device_;
  const ExpertsWeight weight_;
  lathe_dtype dtype_;
  lathe_math math_;
  uint32_t layout_ = 0;
  int64_t packed_stride_ = 0;  // elements from one expert to the next
  HugeMemory packed_;
  bool has_failed_ = false;
};

}  // namespace lathe::bench
