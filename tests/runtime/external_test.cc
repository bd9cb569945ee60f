// External libraries below the C API: missing libraries, unsupported routines, and thread counts.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "runtime/external/library.h"

// OpenBLAS is not instrumented. ThreadSanitizer sees it clear D with libc's memset on one of its threads, but
// not how it synchronises with that thread.
extern "C" const char* __tsan_default_suppressions() { return "race:libopenblas.so"; }

namespace lathe {
namespace {

using testing::HasSubstr;

Step step_of(const char* provider, const char* routine) {
  Step step;
  step.kind = StepKind::kHostExtern;
  step.symbol = "product_call";
  step.external = {provider, routine, {}};
  ProblemClass& c = step.external.problem;
  c.a = c.b = c.d = DType::kF32;
  return step;
}

std::string refusal(ExternalLibraries* libraries, const Step& step) {
  const auto bound = libraries->bind(step);
  EXPECT_EQ(bound.status().code(), absl::StatusCode::kUnavailable) << bound.status();
  return std::string(bound.status().message());
}

TEST(ExternalLibraries, EveryRowHasAParseableName) {
  for (const ExternalLibraryRow& row : external_libraries()) {
    ExternalId id = ExternalId::kAny;
    EXPECT_TRUE(parse(name_of(row.id), &id));
    EXPECT_EQ(id, row.id);
  }
}

TEST(ExternalLibraries, MissingLibraryOrRoutineIsUnavailable) {
  ExternalLibraries cpu(Backend::kCpu);
  EXPECT_THAT(refusal(&cpu, step_of("mkl", "cblas_sgemm")), HasSubstr("cpu has no external library mkl"));
  EXPECT_THAT(refusal(&cpu, step_of("cublaslt", "cublasLtMatmul")), HasSubstr("cpu has no external library"));
  for (const ExternalFound& found : cpu.find()) {
    const std::string why = refusal(&cpu, step_of(std::string(name_of(found.id)).c_str(), "dgemm_batch"));
    EXPECT_THAT(why, HasSubstr(found.absent.empty() ? "no routine dgemm_batch" : found.absent));
    EXPECT_EQ(found.version.empty(), !found.absent.empty());
  }
}

TEST(ExternalLibraries, OldLibraryNamesWhatItLacks) {
  if (std::getenv("LATHE_TEST_OLD_LIBRARIES") == nullptr)
    GTEST_SKIP() << "needs the libraries that are made for this test";
  const std::vector<ExternalFound> found = ExternalLibraries(Backend::kCpu).find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].absent, "libopenblas.so.0 has no openblas_set_num_threads");
  EXPECT_EQ(found[1].absent, "libdnnl.so.3 is version 4.1.2, but Lathe supports only versions 2 and 3");
}

// Four threads compute products at once: two with one device's libraries, two with another's. Each device has
// its own number of OpenBLAS threads.
class OpenBlasThreads : public testing::Test {
 protected:
  void SetUp() override {
    for (const ExternalFound& found : libraries_.find())
      if (found.id == ExternalId::kOpenBlas && !found.absent.empty()) GTEST_SKIP() << found.absent;
    void* object = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(object, nullptr);
    threads_ = reinterpret_cast<int (*)()>(dlsym(object, "openblas_get_num_threads"));
    set_threads_ = reinterpret_cast<void (*)(int)>(dlsym(object, "openblas_set_num_threads"));
  }
  ExternalLibraries libraries_{Backend::kCpu}, others_{Backend::kCpu};
  int (*threads_)() = nullptr;
  void (*set_threads_)(int) = nullptr;
};

TEST_F(OpenBlasThreads, RestoresTheThreadCountOfTheProcess) {
  constexpr int64_t kSize = 96;
  const std::vector<float> a(kSize * kSize, 2), b(kSize * kSize, 3);
  set_threads_(1);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&, i] {
      auto call = (i < 2 ? libraries_ : others_).bind(step_of("openblas", "cblas_sgemm"));
      std::vector<float> d(kSize * kSize);
      ArgumentBlock args;
      args.a = const_cast<float*>(a.data()), args.b = const_cast<float*>(b.data()), args.d = d.data();
      args.lda = args.ldb = args.ldd = args.m = args.n = args.k = kSize;
      args.batch = 1, args.alpha = 1;
      for (int round = 0; round < 200; ++round) {
        ExternalSite site;
        site.threads = i < 2 ? 1 : 2;
        wrong += !call.ok() || !(*call)->run(args, site).ok();
        for (const float x : d) wrong += x != 2 * 3 * kSize;
        std::fill(d.begin(), d.end(), 0.0f);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(threads_(), 1) << "the thread count that the process had set";
}

TEST_F(OpenBlasThreads, RejectsAlphaZeroMisalignmentAndLargeStrides) {
  auto call = libraries_.bind(step_of("openblas", "cblas_sgemm"));
  ASSERT_TRUE(call.ok()) << call.status();
  float x[2] = {1, 1}, d = 7;
  ArgumentBlock args;
  args.a = args.b = x, args.d = &d;
  args.lda = args.ldb = args.ldd = args.m = args.n = args.k = args.batch = 1;
  args.alpha = 0;
  EXPECT_EQ((*call)->run(args, {}).code(), absl::StatusCode::kUnavailable);
  args.alpha = 1;
  args.a = reinterpret_cast<char*>(x) + 1;
  EXPECT_EQ((*call)->run(args, {}).code(), absl::StatusCode::kUnavailable);
  args.a = x;
  args.ldb = int64_t{1} << 31;
  EXPECT_EQ((*call)->run(args, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(d, 7) << "a rejected call must write nothing";
  args.ldb = 1;
  EXPECT_TRUE((*call)->run(args, {}).ok());
  EXPECT_EQ(d, 1);
}

}  // namespace
}  // namespace lathe
