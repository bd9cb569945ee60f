#include "peers.h"

#include <dlfcn.h>

#include <algorithm>

#if LATHE_BENCH_LIBXSMM
#include <libxsmm.h>
#endif
#if LATHE_BENCH_OPENBLAS
#include <cblas.h>
#endif
#if LATHE_BENCH_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace lathe::bench {
namespace {

#if LATHE_BENCH_OPENBLAS
class OpenBlas final : public Peer {
 public:
  std::string name() const override { return "OpenBLAS"; }
  void set_threads(int threads) override { openblas_set_num_threads(threads); }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    if (g.element != Element::kF32) return nullptr;
    return [g](const void* a, const void* b, void* d) {
      const auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
      for (int64_t i = 0; i < g.batch; ++i)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, g.trans_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0f,
                    static_cast<const float*>(a) + i * g.m * g.k, k,
                    static_cast<const float*>(b) + i * g.n * g.k, g.trans_b ? k : n, 0.0f,
                    static_cast<float*>(d) + i * g.m * g.n, n);
    };
  }
};
#endif

#if LATHE_BENCH_ONEDNN
class OneDnnGemm final : public Peer {
 public:
  std::string name() const override { return "oneDNN sgemm"; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    if (g.element != Element::kF32) return nullptr;
    if (g.batch != 1) return nullptr;
    return [g](const void* a, const void* b, void* d) {
      dnnl_sgemm('N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, static_cast<const float*>(a), g.k,
                 static_cast<const float*>(b), g.trans_b ? g.k : g.n, 0.0f, static_cast<float*>(d), g.n);
    };
  }
};

// The matmul primitive with plain strides, created once for each shape. As for the other peers, weights are
// not packed in advance.
class OneDnnMatmul final : public Peer {
 public:
  std::string name() const override { return "oneDNN matmul"; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    using dnnl::memory;
    struct State {
      dnnl::engine engine{dnnl::engine::kind::cpu, 0};
      dnnl::stream stream{engine};
      dnnl::matmul primitive;
      memory a, b, d;
    };
    auto state = std::make_shared<State>();
    using Type = memory::data_type;
    if (activations_of(g.element) != g.element) return nullptr;
    constexpr Type kTypes[] = {Type::f32, Type::f16, Type::bf16, Type::s8};  // indexed by Element
    const Type in = kTypes[static_cast<int>(g.element)], out = in == Type::s8 ? Type::s32 : Type::f32;
    const auto matrices = [&](int64_t rows, int64_t columns, bool transposed, Type type) {
      memory::dims dims = {rows, columns}, strides = {transposed ? 1 : columns, transposed ? rows : 1};
      if (g.batch != 1) dims.insert(dims.begin(), g.batch), strides.insert(strides.begin(), rows * columns);
      return memory::desc(dims, type, strides);
    };
    const memory::desc a = matrices(g.m, g.k, false, in), b = matrices(g.k, g.n, g.trans_b, in),
                       d = matrices(g.m, g.n, false, out);
    try {
      state->primitive =
          dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, d), state->engine));
    } catch (const dnnl::error&) {
      return nullptr;
    }
    state->a = memory(a, state->engine, nullptr);
    state->b = memory(b, state->engine, nullptr);
    state->d = memory(d, state->engine, nullptr);
    return [state](const void* x, const void* y, void* z) {
      state->a.set_data_handle(const_cast<void*>(x));
      state->b.set_data_handle(const_cast<void*>(y));
      state->d.set_data_handle(z);
      state->primitive.execute(
          state->stream, {{DNNL_ARG_SRC, state->a}, {DNNL_ARG_WEIGHTS, state->b}, {DNNL_ARG_DST, state->d}});
      state->stream.wait();
    };
  }
};
#endif

#if LATHE_BENCH_LIBXSMM
// For small products on one thread, with a kernel for each shape. libxsmm is column-major, so this computes
// the transposed product, and it supports no transposed weights.
class Libxsmm final : public Peer {
 public:
  std::string name() const override { return "libxsmm"; }
  void set_threads(int threads) override { threads_ = threads; }
  std::function<void(const void*, const void*, void*)> prepare(const Gemm& g) override {
    constexpr int64_t kLargest = 128;  // libxsmm recommends BLAS for larger sizes
    if (g.element != Element::kF32 || g.trans_b || threads_ != 1 || std::max({g.m, g.n, g.k}) > kLargest)
      return nullptr;
    const float alpha = 1, beta = 0;
    const auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
    const libxsmm_smmfunction kernel =
        libxsmm_smmdispatch(n, m, k, nullptr, nullptr, nullptr, &alpha, &beta, nullptr, nullptr);
    if (kernel == nullptr) return nullptr;
    return [g, kernel](const void* a, const void* b, void* d) {
      for (int64_t i = 0; i < g.batch; ++i)
        kernel(static_cast<const float*>(b) + i * g.n * g.k, static_cast<const float*>(a) + i * g.m * g.k,
               static_cast<float*>(d) + i * g.m * g.n);
    };
  }

 private:
  int threads_ = 1;
};
#endif

}  // namespace

void set_openmp_threads(int threads) {
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
}

bool make_peers(int threads, const PeerLibraries& libraries, std::vector<std::unique_ptr<Peer>>* peers) {
#if LATHE_BENCH_OPENBLAS
  peers->push_back(std::make_unique<OpenBlas>());
#endif
#if LATHE_BENCH_ONEDNN
  peers->push_back(std::make_unique<OneDnnGemm>());
  peers->push_back(std::make_unique<OneDnnMatmul>());
#endif
#if LATHE_BENCH_LIBXSMM
  peers->push_back(std::make_unique<Libxsmm>());
#endif
  const auto add = [&](const char* flag, const std::string& path, auto load) {
    if (path.empty()) return true;
    peers->push_back(load(path));
    if (peers->back() != nullptr) return true;
    std::fprintf(stderr, "--%s %s: it cannot be loaded, or it does not support this CPU\n", flag,
                 path.c_str());
    return false;
  };
  if (!add("mkl_library", libraries.mkl, load_mkl) || !add("onednn_library", libraries.onednn, load_onednn))
    return false;
  for (const auto& peer : *peers) peer->set_threads(threads);
  return true;
}

}  // namespace lathe::bench
