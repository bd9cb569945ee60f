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
// of bytes i32. `batch` of them behind each other.
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
  // Prepares for the shape; the result runs it, null where there is no such product.
  virtual std::function<void(const void* a, const void* b, void* d)> prepare(const Gemm& gemm) = 0;
};

// Shared objects that are loaded where the command names them; their headers are not needed.
struct PeerLibraries {
  std::string mkl;     // libmkl_rt.so, of any version with LP64's CBLAS
  std::string onednn;  // libdnnl.so.3, with a CPU runtime on OpenMP or none
};

// Must be called before anything starts a thread: OpenMP reads its environment once. False, said on stderr,
// where a library that is named cannot be used: without it other peers would look like the best of all.
bool make_peers(int threads, const PeerLibraries& libraries, std::vector<std::unique_ptr<Peer>>* peers);
std::unique_ptr<Peer> load_mkl(const std::string& path);
std::unique_ptr<Peer> load_onednn(const std::string& path);
// oneDNN's threads and libxsmm's callers' are those of the OpenMP runtime in this process, whichever that is.
void set_openmp_threads(int threads);

}  // namespace lathe::bench
