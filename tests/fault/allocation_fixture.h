// A fixture for tests of failing allocations: contexts with the compiler in another process and a fake
// driver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fake_device.h"
#include "generic_bundle.h"

namespace lathe::fault {

namespace fs = std::filesystem;

// Collects text that a call passes to a callback. Stores at most this many bytes, without allocating.
struct Text {
  char bytes[1 << 18];
  size_t size = 0, calls = 0;

  void clear() { size = calls = 0; }
  static void take(void* user, const char*, const char* text, size_t size) {
    Text& self = *static_cast<Text*>(user);
    ++self.calls;
    const size_t more = std::min(size, sizeof(self.bytes) - self.size);
    memcpy(self.bytes + self.size, text, more);
    self.size += more;
  }
  std::string str() const { return {bytes, size}; }
};

class Allocation : public testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (fs::is_directory("/dev/shm") ? "/dev/shm/" : testing::TempDir()) + "lathe_alloc_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    std::ofstream(generic(), std::ios::binary) << generic_bundle_bytes();
  }
  void TearDown() override { fs::remove_all(scratch_); }

  std::string generic() const { return scratch_ + "/fallback.bundle"; }
  std::string cache() const { return scratch_ + "/cache"; }

  ContextOptions options(const std::string& directory) const {
    ContextOptions o;
    o.cache_dir = directory;
    o.compiler_library = fake_compiler();
    o.compiler_in_process = false;
    o.compiler_program = LATHE_COMPILER_PROCESS_FILE;
    o.compiler_bytes = ~uint64_t{0};
    o.fallback_bundle = generic();
    o.workers = 2;
    o.log_level = LogLevel::kDebug;
    o.log_sink = [](LogLevel, const std::string&) {};
    return o;
  }
  lathe_context_options c_options(const std::string& directory) const {
    lathe_context_options o = LATHE_CONTEXT_OPTIONS_INIT;
    o.cache_dir = directory.c_str();
    o.compiler = LATHE_COMPILER_PROCESS;
    o.compiler_program = LATHE_COMPILER_PROCESS_FILE;
    o.log = [](void*, lathe_log_level, const char*) {};
    o.log_level = LATHE_LOG_DEBUG;
    return o;
  }

  // A context and a device whose fake driver only counts launches.
  struct Fake {
    explicit Fake(ContextOptions options) : context(std::move(options)) { open(); }
    void open() {
      device = nullptr;
      const DeviceFacts facts = load_facts(facts_file("ryzen-7-5800u.json")).value();
      auto fake = std::make_unique<FakeDriver>(facts);
      driver = fake.get();
      device = std::make_unique<lathe_device>(context, "fake", facts, std::move(fake));
    }
    void wait_for_background() const {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (context.background.waiting() > 0 && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    lathe_context context;
    FakeDriver* driver = nullptr;
    std::unique_ptr<lathe_device> device;
  };

  std::string scratch_;
};

struct MatmulArgmaxRequest {
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  std::vector<float> a = std::vector<float>(3 * 33), b = std::vector<float>(33 * 40);
  std::vector<int64_t> indices = std::vector<int64_t>(3);
  MatmulArgmaxRequest() {
    desc.m = 3, desc.n = 40, desc.k = 33;
    desc.a.data = a.data(), desc.b.data = b.data(), desc.indices = indices.data();
    desc.a.dtype = desc.b.dtype = desc.logits_dtype = LATHE_F32;
    desc.b.layout = LATHE_COLUMN_MAJOR;
  }
};

}  // namespace lathe::fault
