#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/numbers.h"

#if LATHE_BENCH_CUBLASLT
#include <cublasLt.h>

namespace lathe::bench {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;

// The alignment of rows of that many bytes, for pointers that are aligned to 256 bytes.
uint32_t alignment_of(int64_t row_bytes) {
  return static_cast<uint32_t>(std::min<int64_t>(256, row_bytes & -row_bytes));
}

struct Types {
  cudaDataType_t operands, result, scale;
  cublasComputeType_t compute;
};
Types types_of(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_F16: return {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case LATHE_BF16: return {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case LATHE_F8_E4M3: return {CUDA_R_8F_E4M3, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case LATHE_I8: return {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
    default: throw std::runtime_error("this benchmark does not call cuBLASLt for this dtype");
  }
}

void check(const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " returned " + std::to_string(status));
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

  // cuBLASLt matrices are column-major: it computes D^T (n by m) = W times A^T.
  std::vector<LtCall> algorithms(const LtGemm& g, int most) override {
    const Types types = types_of(g.dtype);
    auto problem = std::make_shared<Problem>();
    check("cublasLtMatmulDescCreate", call<decltype(&cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate")(
                                          &problem->matmul, types.compute, types.scale));
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check("cublasLtMatmulDescSetAttribute",
          call<decltype(&cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute")(
              problem->matmul, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed));
    problem->w = layout(types.operands, g.k, g.n);
    problem->a = layout(types.operands, g.k, g.m);
    problem->d = layout(types.result, g.n, g.m);
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
      const bool is_whole = types.scale == CUDA_R_32I;
      calls.push_back([this, problem, matmul, is_whole, algorithm = found[i].algo](
                          const void* a, const void* w, void* d, void* stream) {
        const float one = 1;
        const int32_t whole_one = 1, zero = 0;  // zero is also 0.0f
        const void* alpha = is_whole ? static_cast<const void*>(&whole_one) : &one;
        check("cublasLtMatmul",
              matmul(handle_, problem->matmul, alpha, w, problem->w, a, problem->a, &zero, d, problem->d, d,
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
  // Allows the whole workspace, and only algorithms that sum splits in f32, as Lathe does.
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
    const auto row = [](int64_t elements, lathe_dtype dtype) {
      return alignment_of(elements * static_cast<int64_t>(size_of(dtype)));
    };
    const uint32_t inner = row(g.k, g.dtype), outer = row(g.n, result_of(g.dtype));
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

std::unique_ptr<CublasLt> CublasLt::open(const CudaDriver& driver) {
  void* library = nullptr;
  std::string tried;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += std::string("\n  ") + dlerror();
  }
  if (library == nullptr)
    throw std::runtime_error(
        "cannot open cuBLASLt: add its directory to LD_LIBRARY_PATH or use --alone. Tried:" + tried);
  auto* allocate = reinterpret_cast<int (*)(void**, size_t)>(driver.entry("cuMemAlloc_v2"));
  void* workspace = nullptr;
  if (allocate(&workspace, kWorkspaceBytes) != 0)
    throw std::runtime_error("cannot allocate cuBLASLt's workspace of 64 MiB");
  return std::make_unique<OpenedLt>(library, workspace);
}

}  // namespace lathe::bench

#else

namespace lathe::bench {
std::unique_ptr<CublasLt> CublasLt::open(const CudaDriver&) {
  throw std::runtime_error("built without cublasLt.h: use --alone to measure without cuBLASLt");
}
}  // namespace lathe::bench

#endif
