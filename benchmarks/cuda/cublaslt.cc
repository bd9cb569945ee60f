#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

#if LATHE_BENCH_CUBLASLT
#include <cublasLt.h>

namespace lathe::bench {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;

// The largest power of two that pointers (aligned to 256 bytes) and rows of that many bytes are multiples of.
uint32_t alignment_of(int64_t row_bytes) {
  return static_cast<uint32_t>(std::min<int64_t>(256, row_bytes & -row_bytes));
}

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
    Dl_info info = {};
    dladdr(dlsym(library_, "cublasLtGetVersion"), &info);
    return std::to_string(call<decltype(&cublasLtGetVersion)>("cublasLtGetVersion")()) + " (" +
           (info.dli_fname == nullptr ? "?" : info.dli_fname) + ")";
  }

  // cuBLASLt speaks of column-major matrices: D^T (n by m) = W^T's transpose times A^T.
  std::vector<LtCall> algorithms(const LtGemm& g, int most) override {
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
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    cublasLtMatmulPreference_t preference = preference_for(g);
    const cublasStatus_t answer = call<decltype(&cublasLtMatmulAlgoGetHeuristic)>(
        "cublasLtMatmulAlgoGetHeuristic")(handle_, problem->matmul, problem->w, problem->a, problem->d,
                                          problem->d, preference, most, found.data(), &count);
    call<decltype(&cublasLtMatmulPreferenceDestroy)>("cublasLtMatmulPreferenceDestroy")(preference);
    check("cublasLtMatmulAlgoGetHeuristic", answer);
    auto* matmul = call<decltype(&cublasLtMatmul)>("cublasLtMatmul");
    std::vector<LtCall> calls;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
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
  // As much workspace as there is, and sums of splits in f32 alone, as Lathe's are.
  cublasLtMatmulPreference_t preference_for(const LtGemm& g) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check("cublasLtMatmulPreferenceCreate",
          call<decltype(&cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate")(&preference));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check("cublasLtMatmulPreferenceSetAttribute",
            call<decltype(&cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute")(
                preference, attribute, &value, sizeof value));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    const uint32_t inner = alignment_of(g.k * 2), outer = alignment_of(g.n * 2);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, inner);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, inner);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, outer);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, outer);
    return preference;
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
  void* library = nullptr;
  std::string tried;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += std::string("\n  ") + dlerror();
  }
  if (library == nullptr)
    throw std::runtime_error("no cuBLASLt (LD_LIBRARY_PATH may name its directory; --alone goes without):" +
                             tried);
  auto* allocate = reinterpret_cast<int (*)(void**, size_t)>(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  void* workspace = nullptr;
  if (allocate == nullptr || allocate(&workspace, kWorkspaceBytes) != 0)
    throw std::runtime_error("no memory for cuBLASLt's workspace");
  return std::make_unique<OpenedLt>(library, workspace);
}

}  // namespace lathe::bench

#else

namespace lathe::bench {
std::unique_ptr<CublasLt> CublasLt::open() {
  throw std::runtime_error("built without cublasLt.h: cuBLASLt is no peer; --alone goes without");
}
}  // namespace lathe::bench

#endif
