// cuBLASLt and hipBLASLt. They have the same interface with different names and numbers, so there is one
// table per library and one implementation. The declarations follow cublasLt.h (CUDA 12, 13) and hipblaslt.h
// (ROCm 6, 7).
//
// Both libraries are column-major, so this computes the transpose of D: D^T (N by M) = B^T A^T. A row-major
// matrix of Lathe is already the library's column-major transpose; a column-major one is transposed by the
// library.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/external/library.h"

namespace lathe {
namespace {

struct Numbers {
  int compute_f32, compute_tf32, compute_i32;
  int no_transpose, transpose;
  int desc_trans_a, desc_trans_b, desc_epilogue, desc_bias, desc_bias_type;
  int layout_batch, layout_stride;
  // -1: hipBLASLt has no such attribute. The alignment attributes of B, C and D follow that of A.
  int preference_workspace, preference_reductions, preference_alignment_a;
};
struct Platform {
  ExternalId id;
  std::vector<const char*> objects;
  const char* prefix;   // prefix of every function
  const char* routine;  // the routine's name in candidates
  Numbers numbers;
};
const Platform kCuda = {ExternalId::kCublasLt,
                        {"libcublasLt.so.13", "libcublasLt.so.12"},
                        "cublasLt",
                        "cublasLtMatmul",
                        {68, 77, 72, 0, 1, 3, 4, 7, 8, 26, 5, 6, 1, 3, 5}};
const Platform kHip = {ExternalId::kHipblasLt,
                       {"libhipblaslt.so.1", "libhipblaslt.so.0", "libhipblaslt.so"},
                       "hipblasLt",
                       "hipblasLtMatmul",
                       {2, 6, 9, 111, 112, 0, 1, 2, 3, 4, 0, 1, 1, -1, -1}};

constexpr int kEpilogueBias = 4;
// Partial sums of split-K in the compute type, because other reduction schemes round in between. For f32 the
// output type is the compute type, too.
constexpr uint32_t kReduceInComputeType = 2;

// Values of cudaDataType and hipDataType.
int type_of(DType t) {
  switch (t) {
    case DType::kF32: return 0;
    case DType::kF16: return 2;
    case DType::kI8: return 3;
    case DType::kI32: return 10;
    case DType::kBF16: return 14;
    default: return -1;
  }
}

struct Functions {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*desc_create)(void**, int compute, int scale_type) = nullptr;
  int (*desc_destroy)(void*) = nullptr;
  int (*desc_set)(void*, int attribute, const void*, size_t) = nullptr;
  int (*layout_create)(void**, int type, uint64_t rows, uint64_t columns, int64_t leading) = nullptr;
  int (*layout_destroy)(void*) = nullptr;
  int (*layout_set)(void*, int attribute, const void*, size_t) = nullptr;
  int (*preference_create)(void**) = nullptr;
  int (*preference_destroy)(void*) = nullptr;
  int (*preference_set)(void*, int attribute, const void*, size_t) = nullptr;
  int (*heuristic)(void* handle, void* desc, void* a, void* b, void* c, void* d, void* preference, int wanted,
                   void* results, int* found) = nullptr;
  int (*matmul)(void* handle, void* desc, const void* alpha, const void* a, void* a_layout, const void* b,
                void* b_layout, const void* beta, const void* c, void* c_layout, void* d, void* d_layout,
                const void* algorithm, void* workspace, size_t workspace_bytes, void* stream) = nullptr;
};

// Everything that the choice of an algorithm depends on.
struct Shape {
  int64_t m, n, k, batch, lda, ldb, ldc, ldd, stride_a, stride_b, stride_c, stride_d;
  size_t workspace;
  bool operator==(const Shape& o) const {
    return std::equal(begin(), begin() + 12, o.begin()) && workspace == o.workspace;
  }

 private:
  const int64_t* begin() const { return &m; }
};

// Descriptors for a shape and the algorithm that the library chose for it. Used by one thread at a time.
class Problem {
 public:
  Problem(const Functions& f, const Platform& p, const Shape& s) : f_(f), p_(p), shape_(s) {}
  Problem(const Problem&) = delete;
  ~Problem() {
    for (void* layout : layouts_)
      if (layout != nullptr) f_.layout_destroy(layout);
    if (desc_ != nullptr) f_.desc_destroy(desc_);
  }
  const Shape& shape() const { return shape_; }

  // Returns 0 or the library's status; *what then names the step that failed.
  int build(void* handle, const ProblemClass& c, const char** what) {
    const Numbers& n = p_.numbers;
    const bool bytes = c.a == DType::kI8;
    const int compute = bytes ? n.compute_i32 : c.math == Math::kTf32 ? n.compute_tf32 : n.compute_f32;
    *what = "describing the product";
    int status = f_.desc_create(&desc_, compute, type_of(bytes ? DType::kI32 : DType::kF32));
    // The library's A is Lathe's B.
    const int32_t trans_a = c.trans_b ? n.transpose : n.no_transpose,
                  trans_b = c.trans_a ? n.transpose : n.no_transpose;
    if (status == 0) status = f_.desc_set(desc_, n.desc_trans_a, &trans_a, sizeof trans_a);
    if (status == 0) status = f_.desc_set(desc_, n.desc_trans_b, &trans_b, sizeof trans_b);
    if (c.bias != DType::kNone) {
      const int32_t epilogue = kEpilogueBias, type = type_of(c.bias);
      if (status == 0) status = f_.desc_set(desc_, n.desc_epilogue, &epilogue, sizeof epilogue);
      if (status == 0) status = f_.desc_set(desc_, n.desc_bias_type, &type, sizeof type);
    }
    const Shape& s = shape_;
    if (status == 0) *what = "describing an operand";
    if (status == 0) status = layout(0, c.a, c.trans_b ? s.k : s.n, c.trans_b ? s.n : s.k, s.ldb, s.stride_b);
    if (status == 0) status = layout(1, c.a, c.trans_a ? s.m : s.k, c.trans_a ? s.k : s.m, s.lda, s.stride_a);
    if (status == 0) status = layout(2, c.d, s.n, s.m, s.ldc, s.stride_c);
    if (status == 0) status = layout(3, c.d, s.n, s.m, s.ldd, s.stride_d);
    return status != 0 ? status : choose(handle, c, what);
  }

  int run(void* handle, const ProblemClass& c, const ArgumentBlock& args, void* stream) {
    const float alpha = args.alpha, beta = c.c == DType::kNone ? 0.0f : args.beta;
    const int32_t one = 1, zero = 0;
    const bool bytes = c.a == DType::kI8;
    const void* c_at = c.c == DType::kNone ? args.d : args.c;
    return f_.matmul(handle, desc_, bytes ? static_cast<const void*>(&one) : &alpha, args.b, layouts_[0],
                     args.a, layouts_[1], bytes ? static_cast<const void*>(&zero) : &beta, c_at, layouts_[2],
                     args.d, layouts_[3], result_, args.workspace, shape_.workspace, stream);
  }
  int set_bias(const void* bias) { return f_.desc_set(desc_, p_.numbers.desc_bias, &bias, sizeof bias); }

 private:
  int layout(size_t i, DType type, int64_t rows, int64_t columns, int64_t leading, int64_t stride) {
    const Numbers& n = p_.numbers;
    int status = f_.layout_create(&layouts_[i], type_of(type), static_cast<uint64_t>(rows),
                                  static_cast<uint64_t>(columns), leading);
    if (status != 0 || shape_.batch == 1) return status;
    const auto count = static_cast<int32_t>(shape_.batch);
    status = f_.layout_set(layouts_[i], n.layout_batch, &count, sizeof count);
    return status != 0 ? status : f_.layout_set(layouts_[i], n.layout_stride, &stride, sizeof stride);
  }

  int choose(void* handle, const ProblemClass& c, const char** what) {
    const Numbers& n = p_.numbers;
    *what = "asking for an algorithm";
    void* preference = nullptr;
    int status = f_.preference_create(&preference);
    const uint64_t workspace = shape_.workspace;
    if (status == 0)
      status = f_.preference_set(preference, n.preference_workspace, &workspace, sizeof workspace);
    if (status == 0 && n.preference_reductions >= 0)
      status =
          f_.preference_set(preference, n.preference_reductions, &kReduceInComputeType, sizeof(uint32_t));
    if (n.preference_alignment_a >= 0) {
      // Alignments of the library's operands A, B, C and D. The default assumes 256 bytes.
      const DType types[] = {c.a, c.a, c.d, c.d};
      for (int i = 0; i < 4 && status == 0; ++i) {
        const auto alignment = static_cast<uint32_t>(alignment_bytes(c.alignment, types[i]));
        status = f_.preference_set(preference, n.preference_alignment_a + i, &alignment, sizeof alignment);
      }
    }
    int found = 0;
    if (status == 0)
      status = f_.heuristic(handle, desc_, layouts_[0], layouts_[1], layouts_[2], layouts_[3], preference, 1,
                            result_, &found);
    if (preference != nullptr) f_.preference_destroy(preference);
    constexpr int kNotSupported = 15;
    return status == 0 && found < 1 ? kNotSupported : status;
  }

  const Functions& f_;
  const Platform& p_;
  const Shape shape_;
  void* desc_ = nullptr;
  void* layouts_[4] = {};
  // One heuristic result, which starts with the algorithm: 96 bytes for cuBLASLt, more in newer hipBLASLt.
  alignas(16) unsigned char result_[512] = {};
};

class Matmul final : public ExternalCall {
 public:
  Matmul(const Functions& f, const Platform& p, void* handle, const ProblemClass& c)
      : f_(f), p_(p), handle_(handle), problem_(c) {}

  absl::Status run(const ArgumentBlock& args, const ExternalSite& site) override {
    if (absl::Status s = check_block(problem_, args); !s.ok()) return s;
    const bool reads_c = problem_.c != DType::kNone;
    const Shape shape = {args.m,
                         args.n,
                         args.k,
                         args.batch,
                         args.lda,
                         args.ldb,
                         reads_c ? args.ldc : args.ldd,
                         args.ldd,
                         args.stride_a,
                         args.stride_b,
                         reads_c ? args.stride_c : args.stride_d,
                         args.stride_d,
                         site.workspace_bytes};
    absl::StatusOr<std::unique_ptr<Problem>> problem = take(shape);
    if (!problem.ok()) return problem.status();
    int status = problem_.bias == DType::kNone ? 0 : (*problem)->set_bias(args.bias);
    if (status == 0) status = (*problem)->run(handle_, problem_, args, site.stream);
    // A call that returns an error has enqueued nothing on the stream.
    if (status != 0) return absl::UnavailableError(absl::StrCat(p_.routine, " failed with status ", status));
    give_back(*std::move(problem));
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMostIdle = 64;

  // Returns a problem that no thread uses, or a new one.
  absl::StatusOr<std::unique_ptr<Problem>> take(const Shape& shape) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto found =
          std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& p) { return p->shape() == shape; });
      if (found != idle_.rend()) {
        std::unique_ptr<Problem> taken = std::move(*found);
        idle_.erase(std::next(found).base());
        return taken;
      }
    }
    auto made = std::make_unique<Problem>(f_, p_, shape);
    const char* what = "";
    if (int status = made->build(handle_, problem_, &what); status != 0)
      return absl::UnavailableError(absl::StrCat(name_of(p_.id), ": ", what, ": status ", status));
    return made;
  }
  void give_back(std::unique_ptr<Problem> problem) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.size() == kMostIdle) idle_.erase(idle_.begin());
    idle_.push_back(std::move(problem));
  }

  const Functions& f_;
  const Platform& p_;
  void* const handle_;
  const ProblemClass problem_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Problem>> idle_;  // under mutex_; the most recently used is last
};

class BlasLt final : public ExternalLibrary {
 public:
  BlasLt(const Functions& f, const Platform& p, std::string version)
      : f_(f), p_(p), version_(std::move(version)) {}
  ~BlasLt() override {
    if (handle_ != nullptr) f_.destroy(handle_);
  }

  std::string version() const override { return version_; }
  absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const ExternalCallFacts& facts) override {
    const ProblemClass& c = facts.problem;
    if (facts.routine != p_.routine || c.op != Op::kMatmul || c.b != c.a || type_of(c.a) < 0 ||
        type_of(c.d) < 0)
      return absl::UnavailableError(absl::StrCat("no routine ", facts.routine, " for this op"));
    if (handle_ == nullptr) {  // for the device whose context is current
      if (const int status = f_.create(&handle_); status != 0) {
        handle_ = nullptr;
        return absl::UnavailableError(absl::StrCat("cannot create a handle: status ", status));
      }
    }
    return std::unique_ptr<ExternalCall>(std::make_unique<Matmul>(f_, p_, handle_, c));
  }

 private:
  const Functions f_;
  const Platform& p_;
  const std::string version_;
  void* handle_ = nullptr;  // under ExternalLibraries' lock
};

absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_blaslt(const Platform& p) {
  auto object = SharedObject::open(p.objects);
  if (!object.ok()) return object.status();
  Functions f;
  std::string missing;
  const auto need = [&](const char* name, auto* function) {
    object->need(absl::StrCat(p.prefix, name).c_str(), function, &missing);
  };
  need("Create", &f.create);
  need("Destroy", &f.destroy);
  need("MatmulDescCreate", &f.desc_create);
  need("MatmulDescDestroy", &f.desc_destroy);
  need("MatmulDescSetAttribute", &f.desc_set);
  need("MatrixLayoutCreate", &f.layout_create);
  need("MatrixLayoutDestroy", &f.layout_destroy);
  need("MatrixLayoutSetAttribute", &f.layout_set);
  need("MatmulPreferenceCreate", &f.preference_create);
  need("MatmulPreferenceDestroy", &f.preference_destroy);
  need("MatmulPreferenceSetAttribute", &f.preference_set);
  need("MatmulAlgoGetHeuristic", &f.heuristic);
  need("Matmul", &f.matmul);
  if (!missing.empty()) return absl::UnavailableError(absl::StrCat(object->name(), " has no ", missing));
  std::string version = object->name();
  if (auto* number = reinterpret_cast<size_t (*)()>(object->find("cublasLtGetVersion")))
    version = absl::StrCat(number() / 10000, ".", number() / 100 % 100, ".", number() % 100);
  return std::unique_ptr<ExternalLibrary>(std::make_unique<BlasLt>(f, p, std::move(version)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_cublaslt() { return open_blaslt(kCuda); }
absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_hipblaslt() { return open_blaslt(kHip); }

}  // namespace lathe
