#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <cstdio>
#include <stdexcept>

#if LATHE_BENCH_CUBLASLT
#include <cublasLt.h>

namespace lathe::bench {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kAlgorithms = 64;

void check(const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " answered " + std::to_string(status));
}

class OpenedLt final : public CublasLt {
 public:
  OpenedLt(void* library, void* workspace) : library_(library), workspace_(workspace) {
    check("cublasLtCreate", call<decltype(&cublasLtCreate)>("cublasLtCreate")(&handle_));
  }
  ~OpenedLt() override { call<decltype(&cublasLtDestroy)>("cublasLtDestroy")(handle_); }

  std::string version() const override {
    return std::to_string(call<decltype(&cublasLtGetVersion)>("cublasLtGetVersion")());
  }

  // cuBLASLt speaks of column-major matrices: D^T (n by m) = W^T's transpose times A^T.
  std::vector<LtCall> algorithms(const LtGemm& g) override {
    const cudaDataType_t type = g.dtype == LATHE_F16 ? CUDA_R_16F : CUDA_R_16BF;
    auto problem = std::make_shared<Problem>();
    check("cublasLtMatmulDescCreate", call<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")(
                                          &problem->matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check("cublasLtMatmulDescSetAttribute",
          call<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute")(
              problem->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    problem->w = layout(type, g.k, g.n);
    problem->a = layout(type, g.k, g.m);
    problem->d = layout(type, g.n, g.m);
    cublasLtMatmulPreference_t preference = nullptr;
    check("cublasLtMatmulPreferenceCreate",
          call<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")(&preference));
    const uint64_t bytes = kWorkspaceBytes;
    check("cublasLtMatmulPreferenceSetAttribute",
          call<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")(
              preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes));
    std::vector<cublasLtMatmulHeuristicResult_t> found(kAlgorithms);
    int count = 0;
    check("cublasLtMatmulAlgoGetHeuristic",
          call<decltype(&cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic")(
              handle_, problem->matmul, problem->w, problem->a, problem->d, problem->d, preference,
              kAlgorithms, found.data(), &count));
    call<decltype(&cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy")(preference);
    auto* matmul = call<decltype(&cublasLtMatmul)>("cublasLtMatmul");
    std::vector<LtCall> calls;
    for (int i = 0; i < count; ++i) {
      if (found[i].state != CUBLAS_STATUS_SUCCESS) continue;
      calls.push_back([this, problem, matmul, algorithm = found[i].algo](const void* a, const void* w,
                                                                         void* d, void* stream) {
        const float one = 1, zero = 0;
        check("cublasLtMatmul",
              matmul(handle_, problem->matmul, &one, w, problem->w, a, problem->a, &zero, d, problem->d, d,
                     problem->d, &algorithm, workspace_, kWorkspaceBytes, static_cast<cudaStream_t>(stream)));
      });
    }
    return calls;
  }

 private:
  struct Problem {
    cublasLtMatmulDesc_t matmul = nullptr;
    cublasLtMatrixLayout_t w = nullptr, a = nullptr, d = nullptr;
  };

  template <typename F>
  F call(const char* name) const {
    void* entry = dlsym(library_, name);
    if (entry == nullptr) throw std::runtime_error(std::string("cuBLASLt has no ") + name);
    return reinterpret_cast<F>(entry);
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    check("cublasLtMatrixLayoutCreate",
          call<decltype(&cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate")(
              &made, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
    return made;
  }

  void* library_;
  void* workspace_;
  cublasLtHandle_t handle_ = nullptr;
};

}  // namespace

std::unique_ptr<CublasLt> CublasLt::open() {
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    auto* allocate = reinterpret_cast<int (*)(void**, size_t)>(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    void* workspace = nullptr;
    if (allocate == nullptr || allocate(&workspace, kWorkspaceBytes) != 0)
      throw std::runtime_error("no memory for cuBLASLt's workspace");
    try {
      return std::make_unique<OpenedLt>(library, workspace);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s; Lathe is measured alone\n", name, e.what());
      return nullptr;
    }
  }
  std::fprintf(stderr, "no cuBLASLt here: %s\n", dlerror());
  return nullptr;
}

}  // namespace lathe::bench

#else

namespace lathe::bench {
std::unique_ptr<CublasLt> CublasLt::open() {
  std::fprintf(stderr, "built without cublasLt.h: Lathe is measured alone\n");
  return nullptr;
}
}  // namespace lathe::bench

#endif
