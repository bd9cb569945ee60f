// The device under test, the run's seed, and the small things every conformance program needs.
//
// LATHE_TEST_DEVICE names the device ("cpu" by default); one that is not available skips every test with its
// reason. LATHE_TEST_SEED repeats a run; without it the seed is fresh and printed. LATHE_TEST_QUICK=1 takes
// fewer and smaller cases, for a device that an emulator plays (case_limits.h has more).
// LATHE_TEST_FALLBACK=1 runs every case that may on the generic kernels of the fallback bundle, without a
// compiler.
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
// The first where a run is quick.
inline int64_t quick_or(int64_t quick, int64_t thorough) { return is_quick() ? quick : thorough; }
uint64_t run_seed();
// A generator of this run's seed and `stream`.
Random random_stream(uint64_t stream);

// A context with a device of it. Options are the caller's; the cache is off disk unless they name a
// directory.
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

// Operands made while it lives are in the memory of `device`, where that is not the host's.
class OperandsOn {
 public:
  explicit OperandsOn(lathe_device* device);
  ~OperandsOn();
  OperandsOn(const OperandsOn&) = delete;
  OperandsOn& operator=(const OperandsOn&) = delete;
};

// Options without a disk cache and with that many workers.
lathe_context_options memory_only(int32_t workers);

// "" when the device under test can compile and run; otherwise why not. Computed once. A build that made the
// compiler (LATHE_CONFORMANCE_REQUIRED) never gets a reason for a compiler that is missing: its tests fail
// instead.
const std::string& skip_reason();

// A directory of this process, removed at exit.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A file or folder of the source tree: where the environment variable says, on a machine that has none, else
// where it was when this was built.
std::string source_path(const char* variable, const char* built);

// Fails with the library's message.
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

// Opens the device with two workers and no disk cache once for all tests of the program; skips without it.
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

// For what only one kind of device has.
#define SKIP_UNLESS_CPU(reason) \
  if (!is_cpu()) GTEST_SKIP() << device_name() << ": " << (reason)
#define SKIP_ON_CPU(reason) \
  if (is_cpu()) GTEST_SKIP() << device_name() << ": " << (reason)

// A stream of the device's own, null on the CPU.
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

// Collects a text callback's pieces.
void append_text(void* user, const char* name, const char* text, size_t size);
// The plan as JSON text, "" when explaining fails.
std::string explain(lathe_plan* plan);

}  // namespace lathe::conformance
