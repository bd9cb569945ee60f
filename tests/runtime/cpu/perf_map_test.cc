#include "runtime/cpu/perf_map.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "../test_kernels.h"
#include "runtime/cpu/object_loader.h"

namespace lathe {
namespace {

struct Range {
  uint64_t start = 0, size = 0;
};

// Reads the map, by name. Every line must have the form that perf reads.
std::map<std::string, Range> read_map(const std::string& path) {
  std::map<std::string, Range> names;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    unsigned long long start = 0, size = 0;
    char name[256] = {};
    int used = 0;
    EXPECT_EQ(std::sscanf(line.c_str(), "%llx %llx %255s%n", &start, &size, name, &used), 3) << line;
    EXPECT_EQ(static_cast<size_t>(used), line.size()) << line;
    names[name] = {start, size};
  }
  return names;
}

// Returns a symbol's size from the object file.
uint64_t size_in_object(const std::string& object, const std::string& name) {
  Elf64_Ehdr header;
  memcpy(&header, object.data(), sizeof header);
  const auto section = [&](size_t i) {
    Elf64_Shdr s;
    memcpy(&s, object.data() + header.e_shoff + i * header.e_shentsize, sizeof s);
    return s;
  };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr table = section(i);
    if (table.sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr strings = section(table.sh_link);
    for (size_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      memcpy(&symbol, object.data() + table.sh_offset + at, sizeof symbol);
      if (name == object.data() + strings.sh_offset + symbol.st_name) return symbol.st_size;
    }
  }
  return 0;
}

bool is_executable(const Range& range) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    unsigned long begin, end;
    char mode[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3) continue;
    if (begin <= range.start && range.start + range.size <= end) return std::string(mode) == "r-xp";
  }
  return false;
}

class PerfMapTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/perf_map_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  Logger logger() {
    return Logger(LogLevel::kWarning,
                  [this](LogLevel, const std::string& text) { warnings_.push_back(text); });
  }
  PerfMap map() { return PerfMap(logger(), directory_); }
  std::string path_of(pid_t process) const {
    return directory_ + "/perf-" + std::to_string(process) + ".map";
  }

  std::string directory_;
  std::vector<std::string> warnings_;
};

TEST_F(PerfMapTest, WritesTheRangeOfEveryFunction) {
  const std::string object = read_test_object("steps");
  ObjectLoader loader(map());
  const auto linked = loader.link(object, {"first", "second"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  const auto names = read_map(path_of(getpid()));
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "first" : "second";
    ASSERT_EQ(names.count(name), 1u) << name;
    const Range range = names.at(name);
    EXPECT_EQ(range.start, reinterpret_cast<uintptr_t>((*linked)[i])) << name;
    EXPECT_EQ(range.size, size_in_object(object, name)) << name;
    EXPECT_GT(range.size, 0u);
    EXPECT_TRUE(is_executable(range)) << name;
  }
  struct stat status;
  ASSERT_EQ(stat(path_of(getpid()).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);

  // The map is appended to, never rewritten, because other writers use the same file.
  ASSERT_TRUE(loader.link(read_test_object("relocations"), {"relocations"}).ok());
  EXPECT_EQ(read_map(path_of(getpid())).size(), names.size() + 1);
  EXPECT_THAT(warnings_, testing::IsEmpty());
}

TEST_F(PerfMapTest, WritesNothingByDefault) {
  ObjectLoader loader;
  ASSERT_TRUE(loader.link(read_test_object("steps"), {"first"}).ok());
  EXPECT_NE(access(PerfMap(logger()).path().c_str(), F_OK), 0);
}

TEST_F(PerfMapTest, ForkedChildWritesItsOwnFile) {
  ObjectLoader loader(map());
  ASSERT_TRUE(loader.link(read_test_object("steps"), {"first", "second"}).ok());
  const size_t before = read_map(path_of(getpid())).size();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(loader.link(read_test_object("relocations"), {"relocations"}).ok() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(read_map(path_of(getpid())).size(), before);
  const auto names = read_map(path_of(child));
  EXPECT_EQ(names.size(), 1u);
  EXPECT_EQ(names.count("relocations"), 1u);
}

// Names are optional: without them the kernel is still loaded.
TEST_F(PerfMapTest, DoesNotFollowLinks) {
  const std::string target = directory_ + "/target";
  std::ofstream(target) << "as it was";
  ASSERT_EQ(symlink(target.c_str(), path_of(getpid()).c_str()), 0);
  ObjectLoader loader(map());
  EXPECT_TRUE(loader.link(read_test_object("steps"), {"first"}).ok());
  std::string text;
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "as it was");
  ASSERT_EQ(unlink(path_of(getpid()).c_str()), 0);
  ASSERT_EQ(link(target.c_str(), path_of(getpid()).c_str()), 0);
  EXPECT_TRUE(loader.link(read_test_object("steps"), {"first"}).ok());
  std::getline(std::ifstream(target), text);
  EXPECT_EQ(text, "as it was");
  EXPECT_THAT(
      warnings_,
      testing::ElementsAre(testing::StartsWith("perf will not show kernel names: cannot write " + directory_),
                           testing::EndsWith("it is not a regular file that only this user owns")));
}

// The signal for a write past the limit must not end the process.
TEST_F(PerfMapTest, FileSizeLimitIsAWarning) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit = {10, 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    const PerfMap names = map();
    for (int i = 0; i < 2; ++i) names.add({{0x1000, 16, "a_kernel"}});  // up to the limit, then past it
    sigset_t pending;
    sigpending(&pending);
    const std::string prefix = "perf will not show kernel names: cannot write " + path_of(getpid()) + ": ";
    const std::vector<std::string> expected = {prefix + "no space", prefix + std::strerror(EFBIG)};
    _exit(warnings_ == expected && !sigismember(&pending, SIGXFSZ) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(PerfMapTest, MissingDirectoryIsAWarning) {
  ObjectLoader loader{PerfMap(logger(), directory_ + "/absent")};
  EXPECT_TRUE(loader.link(read_test_object("steps"), {"first"}).ok());
  EXPECT_THAT(warnings_, testing::ElementsAre(testing::HasSubstr("No such file")));
}

}  // namespace
}  // namespace lathe
