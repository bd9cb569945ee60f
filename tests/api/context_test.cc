#include "api/context.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "core/json.h"
#include "fake_device.h"

namespace lathe {
namespace {

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

// A fresh private directory for a disk cache.
std::string fresh_directory() {
  std::string path = ::testing::TempDir() + "lathe_context_XXXXXX";
  EXPECT_NE(mkdtemp(path.data()), nullptr);
  return path;
}

TEST(Context, CreatesAndDestroys) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  options.cache_dir = "";
  lathe_context* context = nullptr;
  ASSERT_EQ(lathe_context_create(&options, &context), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(lathe_context_create(&options, nullptr), LATHE_INVALID_ARGUMENT);
  lathe_context_destroy(context);
  lathe_context_destroy(nullptr);
  options.struct_size = 1;
  context = reinterpret_cast<lathe_context*>(1);
  EXPECT_EQ(lathe_context_create(&options, &context), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(context, nullptr);
}

TEST(Context, OutlivesADestroyBeforeItsDevices) {
  FakeDevice fake;
  lathe_context_destroy(fake.context.get());
  // Still there: the destroy was refused and said so.
  ASSERT_FALSE(fake.log.empty());
  EXPECT_NE(fake.log.back().find("2 devices are open"), std::string::npos) << fake.log.back();
  EXPECT_EQ(fake.context->devices.load(), 2);
}

TEST(Context, CountsFromMissToHit) {
  FakeDevice fake;
  MatmulRequest m(7, 40, 33);
  lathe_statistics before = fake.statistics();
  EXPECT_EQ(before.dispatch_hits + before.dispatch_misses + before.compiles, 0u);
  for (int i = 0; i < 5; ++i)
    ASSERT_EQ(lathe_matmul(fake.device.get(), nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  const lathe_statistics s = fake.statistics();
  EXPECT_EQ(s.dispatch_misses, 1u);
  EXPECT_EQ(s.dispatch_hits, 4u);
  EXPECT_EQ(s.compiles, 1u);
  EXPECT_EQ(s.compile_failures, 0u);
  EXPECT_EQ(s.compiler_loaded, 1u);
  EXPECT_GT(s.compile_milliseconds, 0.0);
  EXPECT_GT(s.compiler_load_milliseconds, 0.0);
  EXPECT_GT(s.link_milliseconds, 0.0);
  EXPECT_GT(s.artifact_bytes, 0u);

  // The same class on another device of the context: in memory.
  auto driver = std::make_unique<FakeDriver>(fake.device->facts);
  lathe_device second(*fake.context, "second", fake.device->facts, std::move(driver));
  ASSERT_EQ(lathe_matmul(&second, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(fake.statistics().memory_hits, 1u);
  EXPECT_EQ(fake.statistics().compiles, 1u);
}

TEST(Context, RefusesAnUnknownStatisticsStruct) {
  FakeDevice fake;
  lathe_statistics s = LATHE_STATISTICS_INIT;
  EXPECT_EQ(lathe_context_statistics(fake.context.get(), &s), LATHE_OK);
  s.struct_size = 8;
  EXPECT_EQ(lathe_context_statistics(fake.context.get(), &s), LATHE_INVALID_ARGUMENT);
  s.struct_size = sizeof s;
  const lathe_chain element = {sizeof(lathe_chain), nullptr, 1, 0};
  s.next = &element;
  EXPECT_EQ(lathe_context_statistics(fake.context.get(), &s), LATHE_UNSUPPORTED);
  EXPECT_EQ(lathe_context_statistics(fake.context.get(), nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_context_statistics(nullptr, &s), LATHE_INVALID_ARGUMENT);
}

TEST(Context, ListsAndClearsTheDiskCache) {
  const std::string directory = fresh_directory();
  ContextOptions options;
  options.cache_dir = directory;
  options.compiler_library = fake_compiler();
  lathe_context context(options);
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
  MatmulRequest m(7, 40, 33);
  ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();

  std::string text;
  ASSERT_EQ(lathe_cache_list(&context, append, &text), LATHE_OK) << lathe_last_error();
  const Json list = Json::parse(text);
  EXPECT_EQ(list["directory"], directory);
  ASSERT_EQ(list["entries"].size(), 1u) << text;
  EXPECT_EQ(list["entries"][0]["key"]["class"]["n"], 40);
  EXPECT_GT(list["bytes"].get<uint64_t>(), 0u);
  EXPECT_EQ(list["rejected"], 0);

  // Another process' context, without any compiler: served from disk.
  ContextOptions bare = options;
  bare.compiler_library = "/nowhere/liblathe-compiler.so";
  {
    lathe_context other(bare);
    lathe_device warm(other, "fake", facts, std::make_unique<FakeDriver>(facts));
    ASSERT_EQ(lathe_matmul(&warm, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    lathe_statistics s = LATHE_STATISTICS_INIT;
    ASSERT_EQ(lathe_context_statistics(&other, &s), LATHE_OK);
    EXPECT_EQ(s.disk_hits, 1u);
    EXPECT_EQ(s.compiles, 0u);
    EXPECT_EQ(s.compiler_loaded, 0u);
    EXPECT_GT(s.disk_bytes_read, 0u);
  }

  uint64_t removed = 0;
  ASSERT_EQ(lathe_cache_clear(&context, &removed), LATHE_OK);
  EXPECT_EQ(removed, 1u);
  ASSERT_EQ(lathe_cache_clear(&context, nullptr), LATHE_OK);
  EXPECT_EQ(lathe_cache_list(nullptr, append, &text), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_cache_list(&context, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_cache_clear(nullptr, nullptr), LATHE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lathe
