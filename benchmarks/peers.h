// The libraries that Lathe is measured against. Each is optional at build time; the list is what was found.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "machine.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * B, all packed; A and D row-major; B is [n, k] if trans_b, else [k, n]. D is f32,
// of bytes i32.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool trans_b = true;
  Element element = Element::kF32;
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;
  virtual void set_threads(int threads) = 0;
  // Prepares for the shape; the result runs it, null where there is no such product.
  virtual std::function<void(const void* a, const void* b, void* d)> prepare(const Gemm& gemm) = 0;
};

// Must be called before anything starts a thread: OpenMP reads its environment once.
std::vector<std::unique_ptr<Peer>> make_peers(int threads);

}  // namespace lathe::bench
