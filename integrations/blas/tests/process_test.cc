// The drop-in in a process: threads, forks, the end of the program, and which calls go to the next BLAS.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <filesystem>
#include <thread>

#include "random_product.h"

namespace blas_test {
namespace {

TEST(Process, ServesManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 10; ++round)
        check_sgemm({20 + 16 * (t % 4), 48, 40, 'N', 'N', 1, 0.5f}, kForms[t % 3],
                    static_cast<unsigned>(round));
    });
  for (std::thread& thread : threads) thread.join();
}

// Forks while other threads multiply. The child computes on its own threads, known and new shapes.
TEST(Process, ServesTheChildOfAFork) {
  std::atomic<bool> stops{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&stops, t] {
      while (!stops) check_sgemm({64, 64, 40 + t, 'N', 'N', 1, 0}, Form::kRows);
    });
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a deadlock ends the child
      std::thread other([] { check_sgemm({64, 64, 40, 'N', 'N', 1, 0}, Form::kRows); });
      check_sgemm({23, 64, 50, 'T', 'N', 1, 0}, Form::kColumns);
      other.join();
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "wait status " << status;
  }
  stops = true;
  for (std::thread& thread : threads) thread.join();
}

// The program ends while the background thread is inside the compiler.
TEST(ProcessDeathTest, EndsWhileAKernelIsCompiled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    setenv("LATHE_CACHE_DIR", "", 1);
    for (int32_t n = 100; n < 105; ++n)
      for (int round = 0; round < 2; ++round) check_sgemm({33, n, 110}, Form::kRows);
    exit(0);
  };
  for (int round = 0; round < 5; ++round) EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "");
}

// NumPy warns of flags that a product leaves. The first call of a shape chooses a kernel, which divides.
TEST(Process, RaisesNoExceptionFlagsOnAMiss) {
  for (int32_t k : {87, 88}) {
    std::feclearexcept(FE_ALL_EXCEPT);
    const std::vector<float> ones(91 * 91, 1);
    std::vector<float> c(91 * 91);
    cblas_sgemm(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, 91, 89, k, 1, ones.data(), k, ones.data(), 89,
                0, c.data(), 89);
    EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW), 0);
    EXPECT_EQ(c[0], static_cast<float>(k));
  }
}

// ---- The next BLAS is the one that counts its calls.

int& next_calls() {
  static int* const calls =
      static_cast<int*>(dlsym(dlopen(getenv("LATHE_BLAS_NEXT"), RTLD_NOW), "next_calls"));
  return *calls;
}

extern "C" double ddot_(const int32_t* n, const double* x, const int32_t* incx, const double* y,
                        const int32_t* incy);
extern "C" void cblas_dgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k, double alpha,
                            const double* a, int32_t lda, const double* b, int32_t ldb, double beta,
                            double* c, int32_t ldc);

TEST(Next, ReceivesForwardedCallsUnchanged) {
  if (!has_next()) GTEST_SKIP();
  const double a = 3, b = 5;
  double c = 0;
  for (int round = 0; round < 2; ++round) {  // the first call resolves the name
    cblas_dgemm(101, 112, 113, 7, 11, 13, 1.5, &a, 17, &b, 19, 2.5, &c, 23);
    EXPECT_EQ(c, 101 + 2 * 112 + 3 * 113 + 4 * 7 + 5 * 11 + 6 * 13 + 7 * 1.5 + 8 * 3 + 9 * 17 + 10 * 5 +
                     11 * 19 + 12 * 2.5 + 13 * 23);
    const double x[] = {1, 2, 3, 4}, y[] = {5, 6};
    const int32_t two = 2, one = 1;
    EXPECT_EQ(ddot_(&two, x, &two, y, &one), 1 * 5 + 3 * 6);
  }
}

TEST(Next, ServesSmallProducts) {
  if (!has_next()) GTEST_SKIP();
  const int before = next_calls();
  check_sgemm({4, 4, 4}, Form::kFortran);
  EXPECT_EQ(next_calls(), before + 1);
}

// Computes one shape four times, in a new process. Exits with the number of calls of the next BLAS.
[[noreturn]] void count_next_calls(const Case& c, bool waits) {
  const int before = next_calls();
  std::vector<float> results[4];
  for (auto& result : results) {
    result.assign(c.m * c.n, 0);
    std::vector<float> a(c.m * c.k), b(c.k * c.n);
    for (size_t i = 0; i < a.size(); ++i) a[i] = 1.0f / static_cast<float>(i + 3);
    for (size_t i = 0; i < b.size(); ++i) b[i] = 1.0f / static_cast<float>(i + 7);
    cblas_sgemm(kCblasRowMajor, kCblasNoTrans, kCblasNoTrans, c.m, c.n, c.k, 1, a.data(), c.k, b.data(), c.n,
                0, result.data(), c.n);
    if (waits) usleep(500000);  // for the background thread
  }
  for (const auto& result : results)
    if (result != results[0]) exit(99);
  exit(next_calls() - before);
}

// A process never changes the server of a shape, so that equal calls give equal bits. The first process compiles the
// shape that comes again, a later one loads its kernel.
TEST(NextDeathTest, ServesAShapeInTheProcessThatCompilesIt) {
  if (!has_next() || without_lathe()) GTEST_SKIP();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The child runs this function again, with the parent's environment.
  const bool is_parent = getenv("BLAS_TEST_PARENT") == nullptr;
  std::string cache = testing::TempDir() + "blas_test_XXXXXX";
  if (is_parent) {
    ASSERT_NE(mkdtemp(cache.data()), nullptr);
    setenv("LATHE_CACHE_DIR", cache.c_str(), 1);
    setenv("BLAS_TEST_PARENT", "1", 1);
  }
  const Case c = {61, 67, 71};
  for (int process = 0; process < 20; ++process) {
    int calls = -1;
    EXPECT_EXIT(count_next_calls(c, true), ([&](int status) {
                  calls = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                  return calls == 4 || calls == 0;
                }),
                "");
    if (HasFailure()) return;
    if (calls == 0) {
      EXPECT_GT(process, 0) << "the cache was not empty";
      std::filesystem::remove_all(cache);
      return;
    }
  }
  FAIL() << "after 20 processes, the next BLAS still serves the shape";
}

TEST(Next, ServesEverythingWithoutLathe) {
  if (!without_lathe()) GTEST_SKIP();
  const int before = next_calls();
  check_sgemm({61, 67, 71}, Form::kFortran);
  check_sgemv(Form::kFortran, 'N', 100, 100, 1, 1, 1, 0);
  Product half({19, 35, 67}, Form::kFortran, 3);
  half.run_half(to_bf16, sbgemm_, cblas_sbgemm);
  half.check();
  check_batch(2, 360, 340, 306, 1);
  EXPECT_EQ(next_calls(), before + 1 + 1 + 1 + 4);
}

}  // namespace
}  // namespace blas_test
