// The device under test, the seed of the run, and small helpers of every conformance program.
//
// LATHE_TEST_DEVICE names the device ("cpu" by default); if it is not available, every test is skipped with the
// reason. LATHE_TEST_SEED repeats a run; otherwise the seed is random and printed. LATHE_TEST_QUICK=1 runs fewer and
// smaller cases, for an emulated device (see also case_limits.h). LATHE_TEST_FALLBACK=1 runs the cases on the generic
// kernels of the fallback bundle, without a compiler.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "lathe/lathe.h"
#include "numbers.h"

namespace lathe::conformance {

std::string device_name();
bool is_cpu();
bool is_quick();
bool is_fallback();
// The first value in a quick run, else the second.
inline int64_t quick_or(int64_t quick, int64_t thorough) { return is_quick() ? quick : thorough; }
uint64_t run_seed();
// The seed of the running test: drawn from the run's seed and the test's name, so that no two tests draw the same cases.
uint64_t test_seed();
// A random generator seeded with the running test's seed and `stream`.
Random random_stream(uint64_t stream);

// A context with one open device. The cache stays in memory unless the options name a directory.
class OpenDevice {
 public:
  explicit OpenDevice(lathe_context_options options);
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  lathe_device* get() const { return device_; }
  lathe_context* context() const { return context_; }
  lathe_status status() const { return status_; }
  lathe_statistics statistics() const;

 private:
  lathe_context* context_ = nullptr;
  lathe_device* device_ = nullptr;
  lathe_status status_ = LATHE_OK;
};

// While this object lives, new operands are in the memory of `device`, if it has its own.
class OperandsOn {
 public:
  explicit OperandsOn(lathe_device* device);
  ~OperandsOn();
  OperandsOn(const OperandsOn&) = delete;
  OperandsOn& operator=(const OperandsOn&) = delete;
};

// Options without a disk cache and with this number of workers.
lathe_context_options memory_only(int32_t workers);

// "" if the device under test can compile and run, else the reason. Computed once. In a build with a compiler
// (LATHE_CONFORMANCE_REQUIRED) a missing compiler is never a reason: the tests fail instead.
const std::string& skip_reason();

// A temporary directory, removed by the destructor.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A file or directory of the source tree: the value of the environment variable if set (for machines without the tree),
// else the path at build time.
std::string source_path(const char* variable, const char* built);

// Fails with the library's error message.
#define EXPECT_LATHE_OK(expr)                                                   \
  do {                                                                          \
    const lathe_status status_of_call = (expr);                                 \
    EXPECT_EQ(status_of_call, LATHE_OK) << #expr << ": " << lathe_last_error(); \
  } while (false)
#define ASSERT_LATHE_OK(expr)                                                   \
  do {                                                                          \
    const lathe_status status_of_call = (expr);                                 \
    ASSERT_EQ(status_of_call, LATHE_OK) << #expr << ": " << lathe_last_error(); \
  } while (false)

// Opens the device once for all tests of the program, with two workers and no disk cache. Skips if it is not available.
class ConformanceTest : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();
  void SetUp() override;
  void TearDown() override;
  static lathe_device* device() { return shared_->get(); }

  static OpenDevice* shared_;
  static OperandsOn* operands_;
};

// For features that only one kind of device has.
#define SKIP_UNLESS_CPU(reason) \
  if (!is_cpu()) GTEST_SKIP() << device_name() << ": " << (reason)
#define SKIP_ON_CPU(reason) \
  if (is_cpu()) GTEST_SKIP() << device_name() << ": " << (reason)

// A stream of the device; null on the CPU.
class OwnStream {
 public:
  explicit OwnStream(lathe_device* device);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  lathe_stream get() const { return stream_; }

 private:
  lathe_device* device_;
  lathe_stream stream_ = nullptr;
};

// A text callback that collects the pieces in a string.
void append_text(void* user, const char* name, const char* text, size_t size);
// The plan's explanation as JSON; "" if explaining fails.
std::string explain(lathe_plan* plan);

}  // namespace lathe::conformance
