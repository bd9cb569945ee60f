// The libraries that Lathe is measured against. Each is optional at build time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "machine.h"

namespace lathe::bench {

// D (m by n) = A (m by k) * B, without padding. A and D are row-major; B is [n, k] if trans_b, else [k, n]. D
// is f32, for i8 i32. `batch` such products are stored one after the other.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool trans_b = true;
  Element element = Element::kF32;
  int64_t batch = 1;
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string name() const = 0;
  virtual void set_threads(int threads) = 0;
  // Prepares for the shape and returns a function that runs it; null if the peer does not support it.
  virtual std::function<void(const void* a, const void* b, void* d)> prepare(const Gemm& gemm) = 0;
};

// Paths of shared objects that are loaded at run time, "" for none. Their headers are not needed.
struct PeerLibraries {
  std::string mkl;     // libmkl_rt.so of any version with the LP64 interface of CBLAS
  std::string onednn;  // libdnnl.so.3 with an OpenMP or sequential CPU runtime
};

// Call it before any thread starts: OpenMP reads its environment once. Returns false, with a message on
// stderr, if a named library cannot be used: without it another peer would wrongly count as the best.
bool make_peers(int threads, const PeerLibraries& libraries, std::vector<std::unique_ptr<Peer>>* peers);
std::unique_ptr<Peer> load_mkl(const std::string& path);
std::unique_ptr<Peer> load_onednn(const std::string& path);
// Sets the number of threads of the OpenMP runtime in this process, which oneDNN uses.
void set_openmp_threads(int threads);

}  // namespace lathe::bench
