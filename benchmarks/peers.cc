#include "peers.h"

#include <dlfcn.h>

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
  std::function<void(const float*, const float*, float*)> prepare(const Gemm& g) override {
    return [g](const float* a, const float* b, float* d) {
      const auto m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, g.trans_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a, k, b,
                  g.trans_b ? k : n, 0.0f, d, n);
    };
  }
};
#endif

#if LATHE_BENCH_ONEDNN
void set_openmp_threads(int threads) {
  // oneDNN's threads are those of the OpenMP runtime it was linked with, whichever that is.
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
}

class OneDnnGemm final : public Peer {
 public:
  std::string name() const override { return "oneDNN sgemm"; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  std::function<void(const float*, const float*, float*)> prepare(const Gemm& g) override {
    return [g](const float* a, const float* b, float* d) {
      dnnl_sgemm('N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k, 1.0f, a, g.k, b, g.trans_b ? g.k : g.n, 0.0f, d,
                 g.n);
    };
  }
};

// The matmul primitive on plain strides, made once for the shape; weights are not packed in advance, as the
// others' are not.
class OneDnnMatmul final : public Peer {
 public:
  std::string name() const override { return "oneDNN matmul"; }
  void set_threads(int threads) override { set_openmp_threads(threads); }
  std::function<void(const float*, const float*, float*)> prepare(const Gemm& g) override {
    using dnnl::memory;
    struct State {
      dnnl::engine engine{dnnl::engine::kind::cpu, 0};
      dnnl::stream stream{engine};
      dnnl::matmul primitive;
      memory a, b, d;
    };
    auto state = std::make_shared<State>();
    const auto f32 = memory::data_type::f32;
    const memory::desc a({g.m, g.k}, f32, memory::dims{g.k, 1});
    const memory::desc b({g.k, g.n}, f32, g.trans_b ? memory::dims{1, g.k} : memory::dims{g.n, 1});
    const memory::desc d({g.m, g.n}, f32, memory::dims{g.n, 1});
    state->primitive = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, d), state->engine));
    state->a = memory(a, state->engine, nullptr);
    state->b = memory(b, state->engine, nullptr);
    state->d = memory(d, state->engine, nullptr);
    return [state](const float* x, const float* y, float* z) {
      state->a.set_data_handle(const_cast<float*>(x));
      state->b.set_data_handle(const_cast<float*>(y));
      state->d.set_data_handle(z);
      state->primitive.execute(
          state->stream, {{DNNL_ARG_SRC, state->a}, {DNNL_ARG_WEIGHTS, state->b}, {DNNL_ARG_DST, state->d}});
      state->stream.wait();
    };
  }
};
#endif

}  // namespace

std::vector<std::unique_ptr<Peer>> make_peers(int threads) {
  std::vector<std::unique_ptr<Peer>> peers;
#if LATHE_BENCH_OPENBLAS
  peers.push_back(std::make_unique<OpenBlas>());
#endif
#if LATHE_BENCH_ONEDNN
  peers.push_back(std::make_unique<OneDnnGemm>());
  peers.push_back(std::make_unique<OneDnnMatmul>());
#endif
  for (const auto& peer : peers) peer->set_threads(threads);
  return peers;
}

}  // namespace lathe::bench
