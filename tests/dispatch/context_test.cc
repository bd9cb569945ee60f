#include "dispatch/context.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/json.h"
#include "fake_device.h"

namespace lathe {
namespace {

void append(void* user, const char*, const char* text, size_t size) {
  static_cast<std::string*>(user)->append(text, size);
}

// A new private directory for a disk cache; the test removes it.
struct FreshDirectory {
  FreshDirectory() { EXPECT_NE(mkdtemp(path.data()), nullptr); }
  ~FreshDirectory() { std::filesystem::remove_all(path); }
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;
  std::string path = ::testing::TempDir() + "lathe_context_XXXXXX";
};

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

// The cache waits for another process that compiles a key for as long as a compile may take.
TEST(Context, CacheWaitsAsLongAsACompileMayTake) {
  lathe_context_options options = LATHE_CONTEXT_OPTIONS_INIT;
  const auto none = [](const char*) { return nullptr; };
  EXPECT_EQ(cache_options(read_options(&options, none).value(), Logger()).lock_timeout_seconds, 120);
  options.compiler_seconds = 7;
  EXPECT_EQ(cache_options(read_options(&options, none).value(), Logger()).lock_timeout_seconds, 7);
}

TEST(Context, DestroyFailsWhileDevicesAreOpen) {
  FakeDevice fake;
  lathe_context_destroy(fake.context.get());
  // The context still works, and an error says that it was not destroyed.
  ASSERT_FALSE(fake.log.empty());
  EXPECT_NE(fake.log.back().find("2 devices are open"), std::string::npos) << fake.log.back();
  EXPECT_EQ(fake.context->devices.load(), 2);
}

TEST(Context, CountsMissesAndHits) {
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

  // The same class on another device of the context is in memory.
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
  const FreshDirectory fresh;
  const std::string& directory = fresh.path;
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

  // A context without a compiler, as in another process, is served from disk.
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

// A store is packed into a bundle, which contexts on another machine use and import.
TEST(Context, BundlesServeWithoutACompilerAndCanBeImported) {
  const FreshDirectory own, others;
  const std::string &directory = own.path, &elsewhere = others.path;
  const std::string path = elsewhere + "/kernels.bundle", none = elsewhere + "/none.bundle";
  const DeviceFacts facts = *load_facts(facts_file("ryzen-7-5800u.json"));
  MatmulRequest m(7, 40, 33);
  ContextOptions options;
  options.cache_dir = directory;
  options.compiler_library = fake_compiler();
  {
    lathe_context context(options);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  }
  const char* const sources[] = {directory.c_str()};
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  ASSERT_EQ(lathe_bundle_write(path.c_str(), sources, 1, nullptr, &report), LATHE_OK) << lathe_last_error();
  EXPECT_EQ(report.entries, 1u);
  EXPECT_EQ(report.payloads, 1u);
  EXPECT_EQ(report.defects + report.duplicates, 0u);
  ASSERT_EQ(lathe_bundle_write(none.c_str(), sources, 1, "sm_90a", &report), LATHE_OK);
  EXPECT_EQ(report.entries, 0u) << "it is for another target";
  ASSERT_EQ(lathe_bundle_write(none.c_str(), sources, 1, facts.target.arch.c_str(), &report), LATHE_OK);
  EXPECT_EQ(report.entries, 1u);

  std::string text;
  ASSERT_EQ(lathe_bundle_list(path.c_str(), append, &text), LATHE_OK) << lathe_last_error();
  const Json list = Json::parse(text);
  ASSERT_EQ(list["entries"].size(), 1u);
  EXPECT_EQ(list["entries"][0]["key"]["class"]["n"], 40);
  EXPECT_EQ(list["rejected"], 0);

  ContextOptions shipped;
  shipped.bundles = {elsewhere + "/absent.bundle", path};
  shipped.compiler_library = "/nowhere/liblathe-compiler.so";
  for (const std::string& cache : {std::string(), elsewhere + "/cache"}) {
    shipped.cache_dir = cache;
    lathe_context context(shipped);
    lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
    ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
    lathe_statistics s = LATHE_STATISTICS_INIT;
    ASSERT_EQ(lathe_context_statistics(&context, &s), LATHE_OK);
    EXPECT_EQ(s.bundle_hits, 1u);
    EXPECT_EQ(s.disk_hits + s.compiles + s.disk_rejects, 0u);
    EXPECT_EQ(lathe_cache_import(&context, path.c_str(), &report),
              cache.empty() ? LATHE_NOT_AVAILABLE : LATHE_OK);
  }
  EXPECT_EQ(report.entries, 1u);

  // Now served from the directory only, and then pruned.
  shipped.bundles.clear();
  lathe_context context(shipped);
  lathe_device device(context, "fake", facts, std::make_unique<FakeDriver>(facts));
  ASSERT_EQ(lathe_matmul(&device, nullptr, &m.desc), LATHE_OK) << lathe_last_error();
  ASSERT_EQ(lathe_cache_import(&context, path.c_str(), &report), LATHE_OK);
  EXPECT_EQ(report.entries, 0u);
  EXPECT_EQ(report.duplicates, 1u);
  uint64_t removed = 0;
  ASSERT_EQ(lathe_cache_prune(&context, UINT64_MAX, &removed), LATHE_OK);
  EXPECT_EQ(removed, 0u);
  ASSERT_EQ(lathe_cache_prune(&context, 0, &removed), LATHE_OK);
  EXPECT_EQ(removed, 1u);
  lathe_statistics s = LATHE_STATISTICS_INIT;
  ASSERT_EQ(lathe_context_statistics(&context, &s), LATHE_OK);
  EXPECT_EQ(s.disk_hits, 1u);
  EXPECT_EQ(s.evictions, 1u);
}

TEST(Context, BundleCallsNameTheDefect) {
  const FreshDirectory fresh;
  const std::string &directory = fresh.path, path = directory + "/out.bundle";
  const char* const absent[] = {"/nonexistent/source"};
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  EXPECT_EQ(lathe_bundle_write(path.c_str(), absent, 1, nullptr, &report), LATHE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(lathe_last_error()).find("/nonexistent/source"), std::string::npos);
  EXPECT_EQ(lathe_bundle_write("/proc/nowhere/x.bundle", nullptr, 0, nullptr, nullptr), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_bundle_write(nullptr, absent, 1, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_bundle_write(path.c_str(), nullptr, 1, nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  report.struct_size = 1;
  EXPECT_EQ(lathe_bundle_write(path.c_str(), nullptr, 0, nullptr, &report), LATHE_INVALID_ARGUMENT);
  std::string text;
  EXPECT_EQ(lathe_bundle_list(path.c_str(), append, &text), LATHE_INVALID_ARGUMENT) << "nothing was written";
  EXPECT_EQ(lathe_bundle_list(nullptr, append, &text), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_bundle_list(path.c_str(), nullptr, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_cache_import(nullptr, path.c_str(), nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_cache_prune(nullptr, 0, nullptr), LATHE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace lathe
