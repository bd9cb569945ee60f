#include "device.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include "case_limits.h"
#include "guarded_memory.h"
#include "tests/sample.h"

namespace lathe::conformance {

std::string device_name() {
  const char* name = std::getenv("LATHE_TEST_DEVICE");
  return name && *name ? name : "cpu";
}

bool is_cpu() { return device_name().rfind("cpu", 0) == 0; }

namespace {

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text && *text && std::string(text) != "0";
}

}  // namespace

bool is_quick() { return is_set("LATHE_TEST_QUICK"); }
bool is_fallback() { return is_set("LATHE_TEST_FALLBACK"); }

uint64_t run_seed() {
  static const uint64_t seed = [] {
    const char* text = std::getenv("LATHE_TEST_SEED");
    const uint64_t value = text && *text ? std::strtoull(text, nullptr, 0) : std::random_device{}();
    std::printf("seed %llu (repeat with LATHE_TEST_SEED), device %s%s\n",
                static_cast<unsigned long long>(value), device_name().c_str(),
                (describe_limits() + (is_quick() ? ", quick: fewer and smaller cases" : "")).c_str());
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

uint64_t test_seed() { return seed_of_test(run_seed()); }

Random random_stream(uint64_t stream) { return Random(test_seed() * 0x9e3779b97f4a7c15 + stream); }

OpenDevice::OpenDevice(lathe_context_options options) {
  status_ = lathe_context_create(&options, &context_);
  if (status_ == LATHE_OK) status_ = lathe_device_open(context_, device_name().c_str(), &device_);
}

OpenDevice::~OpenDevice() {
  lathe_device_close(device_);
  lathe_context_destroy(context_);
}

lathe_statistics OpenDevice::statistics() const {
  lathe_statistics statistics = LATHE_STATISTICS_INIT;
  EXPECT_LATHE_OK(lathe_context_statistics(context_, &statistics));
  return statistics;
}

OperandsOn::OperandsOn(lathe_device* device) {
  if (!is_cpu()) GuardedMemory::use_device(device);
}

OperandsOn::~OperandsOn() { GuardedMemory::use_device(nullptr); }

OwnStream::OwnStream(lathe_device* device) : device_(device) {
  EXPECT_LATHE_OK(lathe_stream_create(device, &stream_));
}

OwnStream::~OwnStream() {
  if (stream_ != nullptr) lathe_stream_destroy(device_, stream_);
}

lathe_context_options memory_only(int32_t workers) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_dir = "";
  options.workers = workers;
  if (is_fallback()) {
    options.miss_policy = LATHE_MISS_FALLBACK;
    options.compiler_library = "/nonexistent/liblathe-compiler.so";
  }
  return options;
}

namespace {

std::string find_skip_reason() {
  OpenDevice device(memory_only(1));
  if (device.status() == LATHE_NOT_AVAILABLE) return lathe_last_error();
  // A target that LATHE_CPU_TARGET names.
  if (device.status() == LATHE_INVALID_ARGUMENT && std::strstr(lathe_last_error(), "this processor lacks"))
    return lathe_last_error();
  if (device.status() != LATHE_OK) return "";  // an error is no reason to skip: the tests report it
#ifndef LATHE_CONFORMANCE_REQUIRED
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = desc.n = 1;
  desc.x.dtype = LATHE_F32;
  lathe_plan* plan = nullptr;
  if (lathe_plan_argmax(device.get(), &desc, &plan) == LATHE_NOT_AVAILABLE) return lathe_last_error();
  lathe_plan_destroy(plan);
#endif
  return "";
}

}  // namespace

const std::string& skip_reason() {
  static const std::string reason = find_skip_reason();
  return reason;
}

std::string source_path(const char* variable, const char* built) {
  const char* moved = std::getenv(variable);
  return moved == nullptr ? built : moved;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lathe-conformance-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) std::perror("mkdtemp");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

OpenDevice* ConformanceTest::shared_ = nullptr;
OperandsOn* ConformanceTest::operands_ = nullptr;

void ConformanceTest::SetUpTestSuite() {
  run_seed();
  if (!skip_reason().empty()) return;
  shared_ = new OpenDevice(memory_only(2));
  if (shared_->status() == LATHE_OK) operands_ = new OperandsOn(shared_->get());
}

void ConformanceTest::TearDownTestSuite() {
  delete operands_;
  delete shared_;
  operands_ = nullptr;
  shared_ = nullptr;
}

void ConformanceTest::SetUp() {
  if (!skip_reason().empty()) GTEST_SKIP() << device_name() << ": " << skip_reason();
  ASSERT_EQ(shared_->status(), LATHE_OK) << lathe_last_error();
  begin_cases();
}

void ConformanceTest::TearDown() {
  if (IsSkipped()) return;
  const CaseCount cases = count_cases();
  if (cases.left_out == 0) return;
  std::printf("[ LEFT OUT ] %d of %d cases%s\n", cases.left_out, cases.run + cases.left_out,
              describe_limits().c_str());
  if (cases.run == 0) GTEST_SKIP() << "no case is within the limits" << describe_limits();
}

void append_text(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

std::string explain(lathe_plan* plan) {
  std::string text;
  EXPECT_LATHE_OK(lathe_plan_explain(plan, append_text, &text));
  return text;
}

}  // namespace lathe::conformance
