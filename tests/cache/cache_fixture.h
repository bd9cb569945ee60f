// A temporary directory, keys and artifacts to store there, and a log of warnings.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "cache/cache.h"

namespace lathe {

class CacheFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_cache_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    scratch_ = name;
    directory_ = scratch_ + "/cache";
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  CacheOptions options() { return options_for(directory_); }
  CacheOptions options_for(const std::string& directory) {
    CacheOptions o;
    o.directory = directory;
    o.logger = Logger(LogLevel::kWarning, [this](LogLevel, const std::string& message) {
      const std::lock_guard<std::mutex> lock(mutex_);
      warnings_.push_back(message);
    });
    return o;
  }
  std::string entry_path(const Key& key) const { return directory_ + "/" + key.fingerprint + ".lathe"; }
  std::string journal() const { return directory_ + "/.uses"; }
  // Fills the journal of uses with empty lines, up to one byte below the size at which it is rewritten.
  void rewrite_at_next_note() const {
    const std::string uses = read_file(journal());
    write_file(journal(), uses + std::string((256 << 10) - 1 - uses.size(), '\n'));
  }

  // Compiles `key` with a new cache, so that the entry is on disk but in no other cache's memory.
  void put(const Key& key);

  static Key key(int n) { return key_from_text("{\"n\":" + std::to_string(n) + "}"); }
  // An artifact that contains the key that it was compiled for.
  static Artifact artifact(const Key& key) {
    Artifact a;
    Step step;
    step.symbol = "kernel";
    step.grid = {constant(1), constant(1), constant(1)};
    a.recipe.steps = {step};
    a.code = "code for " + key.text;
    a.metadata = "{}";
    return a;
  }
  static bool is_for(const absl::StatusOr<CacheResult>& result, const Key& key) {
    return result.ok() && result->artifact != nullptr &&
           serialize(*result->artifact) == serialize(artifact(key));
  }
  static std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  // The files in the directory, except the journal of uses.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    if (std::filesystem::exists(directory_))
      for (const auto& entry : std::filesystem::directory_iterator(directory_))
        if (entry.path().filename() != ".uses") names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string scratch_, directory_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

inline void CacheFixture::put(const Key& key) {
  const auto result = make_cache(options())->get_or_create(key, [&] { return artifact(key); });
  ASSERT_TRUE(is_for(result, key)) << result.status();
  ASSERT_TRUE(std::filesystem::exists(entry_path(key)));
}

}  // namespace lathe
