// OpenBLAS: cblas_sgemm and its thread count. The declarations follow its cblas.h.
#include <condition_variable>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/per_process.h"
#include "runtime/external/library.h"

namespace lathe {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // CBLAS

struct Functions {
  void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a,
                int lda, const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
  const char* (*config)() = nullptr;  // "OpenBLAS 0.3.21 NO_LAPACKE ..."
};

// OpenBLAS has one thread count for the whole process, which the host may have set. This sets the count that
// a launch needs while calls with that count run, then restores the old one. Calls with another count wait.
class ThreadCount {
 public:
  // The instance of this process; the child of a fork starts with a new one.
  static ThreadCount& get() {
    static auto* const kept = new PerProcess<ThreadCount>;  // never destroyed: a context may outlive main
    return kept->get();
  }

  void enter(const Functions& f, int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0 || count_ == count; });
    if (running_++ > 0) return;
    count_ = count;
    before_ = f.threads();
    if (before_ != count) f.set_threads(count);
  }
  void leave(const Functions& f) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--running_ > 0) return;
    if (before_ != count_) f.set_threads(before_);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0, count_ = 0, before_ = 0;  // under mutex_
};

class Sgemm final : public ExternalCall {
 public:
  Sgemm(const Functions& f, const ProblemClass& problem) : f_(f), problem_(problem) {}

  absl::Status run(const ArgumentBlock& args, const ExternalSite& site) override {
    if (absl::Status s = check_block(problem_, args); !s.ok()) return s;
    if (std::max({args.lda, args.ldb, args.ldd}) > INT32_MAX)
      return absl::UnavailableError("a leading dimension does not fit in 32 bits");
    const bool adds = problem_.c != DType::kNone;
    copy_c_to_d(problem_, args);
    const auto d = [&](int64_t batch) { return static_cast<float*>(args.d) + batch * args.stride_d; };
    // sgemm passes products with one row or column to sgemv, which in some releases reads D although beta is
    // 0. So set D to 0.
    if (!adds && (args.m == 1 || args.n == 1))
      for (int64_t b = 0; b < args.batch; ++b)
        for (int64_t i = 0; i < args.m; ++i)
          std::memset(d(b) + i * args.ldd, 0, static_cast<size_t>(args.n) * sizeof(float));
    ThreadCount& threads = ThreadCount::get();
    threads.enter(f_, site.threads);
    for (int64_t b = 0; b < args.batch; ++b)
      f_.sgemm(kRowMajor, problem_.trans_a ? kTranspose : kNoTranspose,
               problem_.trans_b ? kTranspose : kNoTranspose, args.m, args.n, args.k, args.alpha,
               static_cast<const float*>(args.a) + b * args.stride_a, static_cast<int>(args.lda),
               static_cast<const float*>(args.b) + b * args.stride_b, static_cast<int>(args.ldb),
               adds ? args.beta : 0.0f, d(b), static_cast<int>(args.ldd));
    threads.leave(f_);
    return absl::OkStatus();
  }

 private:
  const Functions& f_;
  const ProblemClass problem_;
};

class OpenBlas final : public ExternalLibrary {
 public:
  explicit OpenBlas(const Functions& f) : f_(f) {}

  std::string version() const override {
    const std::vector<std::string> words = absl::StrSplit(f_.config(), ' ', absl::SkipEmpty());
    return words.size() > 1 ? words[1] : "?";
  }
  absl::StatusOr<std::unique_ptr<ExternalCall>> bind(const ExternalCallFacts& facts) override {
    const ProblemClass& c = facts.problem;
    if (facts.routine != "cblas_sgemm" || c.op != Op::kMatmul || c.a != DType::kF32 || c.b != DType::kF32 ||
        c.d != DType::kF32)
      return absl::UnavailableError(absl::StrCat("no routine ", facts.routine, " for this op"));
    return std::unique_ptr<ExternalCall>(std::make_unique<Sgemm>(f_, c));
  }

 private:
  const Functions f_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExternalLibrary>> open_openblas() {
  auto object = SharedObject::open({"libopenblas.so.0"});
  if (!object.ok()) return object.status();
  Functions f;
  std::string missing;
  object->need("cblas_sgemm", &f.sgemm, &missing);
  object->need("openblas_set_num_threads", &f.set_threads, &missing);
  object->need("openblas_get_num_threads", &f.threads, &missing);
  object->need("openblas_get_config", &f.config, &missing);
  if (!missing.empty()) return absl::UnavailableError(absl::StrCat(object->name(), " has no ", missing));
  return std::unique_ptr<ExternalLibrary>(std::make_unique<OpenBlas>(f));
}

}  // namespace lathe
