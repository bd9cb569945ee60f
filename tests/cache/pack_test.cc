#include "cache/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/bundle.h"
#include "cache_fixture.h"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PackTest : public CacheFixture {
 protected:
  static bool all(absl::string_view) { return true; }
  absl::StatusOr<PackReport> pack(const std::string& name, const std::vector<std::string>& sources) {
    return write_bundle(path(name), sources, all);
  }
  std::string path(const std::string& name) const { return scratch_ + "/" + name; }
  CacheOptions under(const std::vector<std::string>& names, const std::string& directory = "") {
    CacheOptions o = options_for(directory);
    for (const std::string& name : names) o.bundles.push_back(path(name));
    return o;
  }
  // Flips a bit of the last byte, which belongs to a payload.
  void damage(const std::string& name) {
    std::string bytes = read_file(path(name));
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    write_file(path(name), bytes);
  }
};

TEST_F(PackTest, MergesStoresAndBundles) {
  put(key(1));
  put(key(2));
  ASSERT_TRUE(pack("a", {directory_}).ok());
  std::filesystem::remove_all(directory_);
  put(key(2));
  put(key(3));
  const auto both = pack("both", {path("a"), directory_});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->entries, 3u);
  EXPECT_EQ(both->duplicates, 1u);
  EXPECT_EQ(both->bytes, std::filesystem::file_size(path("both")));
  ASSERT_TRUE(pack("again", {directory_, path("a")}).ok());
  EXPECT_EQ(read_file(path("both")), read_file(path("again"))) << "the order of the sources must not matter";
  const auto odd =
      write_bundle(path("odd"), {path("both")}, [](absl::string_view k) { return k != key(2).text; });
  EXPECT_EQ(odd->entries, 2u);

  const auto cache = make_cache(under({"both"}));
  for (int n = 1; n <= 3; ++n) {
    const auto result = cache->get(key(n));
    EXPECT_TRUE(is_for(result, key(n)));
    EXPECT_EQ(result->outcome, CacheOutcome::kBundleHit);
    EXPECT_EQ(cache->get(key(n))->outcome, CacheOutcome::kMemoryHit);
  }
  EXPECT_TRUE(absl::IsNotFound(cache->get(key(4)).status()));
  EXPECT_EQ(cache->statistics().bundle_hits, 3u);
  EXPECT_EQ(cache->statistics().misses, 1u);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(PackTest, CompressesLargePayloadsWithoutLoss) {
  Artifact large = artifact(key(1));
  for (int i = 0; i < 5000; ++i) large.code += "instruction " + std::to_string(i * i % 97);
  ASSERT_TRUE(make_cache(options())->get_or_create(key(1), [&] { return large; }).ok());
  const auto packed = pack("a", {directory_});
  ASSERT_TRUE(packed.ok());
  EXPECT_LT(packed->bytes, packed->unpacked_bytes / 4);
  EXPECT_EQ(serialize(*make_cache(under({"a"}))->get(key(1))->artifact), serialize(large));
}

TEST_F(PackTest, SearchesTheStoreThenTheBundlesInOrder) {
  const auto coded = [](const std::string& code) {
    Artifact a = artifact(key(1));
    a.code = code;
    return a;
  };
  for (const char* code : {"first", "second", "own"}) {
    std::filesystem::remove_all(directory_);
    ASSERT_TRUE(make_cache(options())->get_or_create(key(1), [&] { return coded(code); }).ok());
    ASSERT_TRUE(pack(code, {directory_}).ok());
  }
  EXPECT_EQ(make_cache(under({"first", "second"}))->get(key(1))->artifact->code, "first");
  EXPECT_EQ(make_cache(under({"second", "first"}))->get(key(1))->artifact->code, "second");
  EXPECT_EQ(make_cache(under({"second", "first"}, directory_))->get(key(1))->artifact->code, "own");
}

TEST_F(PackTest, BundleHitCompilesAndWritesNothing) {
  put(key(1));
  ASSERT_TRUE(pack("a", {directory_}).ok());
  std::filesystem::remove_all(directory_);
  const auto cache = make_cache(under({"a"}, directory_));
  const auto result = cache->get_or_create(
      key(1), []() -> absl::StatusOr<Artifact> { return absl::InternalError("must not compile"); });
  EXPECT_TRUE(is_for(result, key(1))) << result.status();
  EXPECT_EQ(result->outcome, CacheOutcome::kBundleHit);
  EXPECT_FALSE(std::filesystem::exists(directory_));
}

// Each bad bundle gives one warning; then the next bundle is searched, and at last the compiler runs.
TEST_F(PackTest, MissingAndDamagedBundlesAreMisses) {
  put(key(1));
  put(key(2));
  for (const char* name : {"good", "payload", "index"}) ASSERT_TRUE(pack(name, {directory_}).ok());
  damage("payload");
  write_file(path("index"), read_file(path("index")).substr(0, 70));
  const auto cache = make_cache(under({"absent", "index", "payload", "good"}));
  for (int n = 1; n <= 2; ++n) EXPECT_TRUE(is_for(cache->get(key(n)), key(n)));
  EXPECT_EQ(cache->statistics().disk_rejects, 2u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("absent"), HasSubstr("index"), HasSubstr("payload")));

  const auto alone = make_cache(under({"index"}));
  EXPECT_TRUE(is_for(alone->get_or_create(key(1), [&] { return artifact(key(1)); }), key(1)));

  // When they are packed again, the bundle with a damaged index is rejected and the damaged payload is
  // skipped.
  EXPECT_EQ(pack("x", {path("index")}).status().code(), absl::StatusCode::kInvalidArgument);
  const auto rest = pack("x", {path("payload")});
  ASSERT_TRUE(rest.ok());
  EXPECT_EQ(rest->entries, 1u);
  EXPECT_EQ(rest->defects, 1u);
}

TEST_F(PackTest, FindsABundleThatAppearsLater) {
  const auto cache = make_cache(under({"late"}));
  EXPECT_TRUE(absl::IsNotFound(cache->get(key(1)).status()));
  put(key(1));
  ASSERT_TRUE(pack("late", {directory_}).ok());
  EXPECT_TRUE(is_for(cache->get(key(1)), key(1)));
}

TEST_F(PackTest, ImportsMissingAndDamagedEntries) {
  put(key(1));
  put(key(2));
  ASSERT_TRUE(pack("a", {directory_}).ok());
  std::filesystem::remove(entry_path(key(2)));
  write_file(entry_path(key(1)), "damaged");  // replaced
  put(key(3));
  const auto cache = make_cache(options());
  const auto first = import_bundle(path("a"), *cache), second = import_bundle(path("a"), *cache);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->entries, 2u);
  EXPECT_EQ(second->entries, 0u);
  EXPECT_EQ(second->duplicates, 2u);
  for (int n = 1; n <= 3; ++n) EXPECT_EQ(make_cache(options())->get(key(n))->outcome, CacheOutcome::kDiskHit);
  EXPECT_EQ(import_bundle(path("a"), *make_cache(options_for(""))).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(import_bundle(path("none"), *cache).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lathe
