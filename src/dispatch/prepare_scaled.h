// What the host does before a product with block scales: it decodes A to f32, and gives the scales of B the order in which
// kernels read them (core/block_scaled.h).
#pragma once

#include "dispatch/device.h"
#include "request/request.h"

namespace lathe {

// The scales of some matrices B. Scale i of the result belongs to block i of the first matrix's elements.
struct PlainScales {
  const StoredScales* stored = nullptr;
  int64_t matrix = 0, matrices = 1, lines = 0;
  int64_t pitch = 0, stride = 0;  // blocks from one line to the next, and from one matrix to the next
  char* to = nullptr;

  static constexpr int64_t kLinesPerTask = 64;

  // The scales of `matrices` matrices whose elements lie as the arguments of the launch say.
  static PlainScales of(const StoredScales& stored, const ArgumentBlock& args, DType blocks,
                        int64_t matrices);
  bool is_stored_so() const;  // the stored scales have this order: no copy is needed
  char* in_place() const;     // the scales of the first matrix then
  size_t bytes() const;
  int64_t tasks() const { return matrices * ceil_div(lines, kLinesPerTask); }
  void run(int64_t task) const;
};

// The factor of a product: both operands' global scales.
float global_factor(const ScaledProduct& product, int64_t matrix_of_b);

absl::Status launch_scaled(lathe_device& device, const DispatchEntry& entry, Request& request);

}  // namespace lathe
