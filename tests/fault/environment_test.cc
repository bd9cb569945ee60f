// Runs the library with a real compiler and real kernels in processes with unusual environments.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "../string_pointers.h"
#include "mount_namespace.h"

namespace lathe::fault {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using Strings = std::vector<std::string>;

constexpr int64_t kTwoYears = 2 * 365 * 86400;

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
Strings lines(const std::string& text) {
  Strings all;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    all.push_back(text.substr(at, end - at));
  return all;
}

class EnvironmentTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "lathe_environment_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    ASSERT_EQ(chmod(name.c_str(), 0755), 0);
    scratch_ = name;
    store_ = scratch_ + "/cache";
  }
  void TearDown() override { fs::remove_all(scratch_); }

  // The output of a process.
  struct Outcome {
    bool succeeded = false;
    std::string out;
    Strings log;
    int64_t operator[](const std::string& name) const {
      const size_t at = out.find(name + "=");
      return at == std::string::npos ? -1 : std::atoll(out.c_str() + at + name.size() + 1);
    }
  };

  // Starts environment_child.cc with only the variables in `environment`.
  pid_t start(const Strings& arguments, const Strings& environment,
              const MountNamespace* inside = nullptr) const {
    Strings all = arguments, variables = environment;
    all.insert(all.begin(), program_);
    const std::vector<char*> argv = string_pointers(all), envp = string_pointers(variables);
    const pid_t child = fork();
    if (child != 0) return child;
    const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
    dup2(open((scratch_ + "/out").c_str(), flags, 0600), STDOUT_FILENO);
    dup2(open((scratch_ + "/log").c_str(), flags, 0600), STDERR_FILENO);
    if (inside != nullptr && !inside->enter()) _exit(2);
    execve(program_.c_str(), argv.data(), envp.data());
    _exit(2);
  }
  Outcome finish(pid_t child) const {
    int status = -1;
    waitpid(child, &status, 0);
    return {status == 0, contents(scratch_ + "/out"), lines(contents(scratch_ + "/log"))};
  }
  Outcome run_with(const Strings& environment, const Strings& arguments,
                   const MountNamespace* inside = nullptr) const {
    return finish(start(arguments, environment, inside));
  }
  Outcome run(const Strings& arguments, const MountNamespace* inside = nullptr) const {
    return run_with(in_store(), arguments, inside);
  }
  Strings in_store() const { return {"LATHE_CACHE_DIR=" + store_}; }
  static std::string clock(int64_t seconds) { return "clock=" + std::to_string(seconds); }

  // The path of the only kernel in the store.
  std::string entry() const {
    for (const auto& file : fs::directory_iterator(store_))
      if (file.path().extension() == ".lathe") return file.path();
    return "";
  }
  // The size in bytes of the largest store file with this ending.
  uintmax_t largest(const std::string& ending) const {
    uintmax_t bytes = 0;
    for (const auto& file : fs::directory_iterator(store_))
      if (file.path().extension() == ending) bytes = std::max(bytes, file.file_size());
    return bytes;
  }
  // The kernels must work in memory. The cause must be logged once, and also be reported to a caller that
  // lists a rejected directory.
  void expect_memory_only(const Strings& environment, const std::string& cause) const {
    const Outcome outcome = run_with(environment, {"16", "32", "16"});
    EXPECT_TRUE(outcome.succeeded) << outcome.out;
    EXPECT_EQ(outcome["compiles"], 2);
    EXPECT_THAT(outcome.out, testing::AnyOf(HasSubstr("\"directory\":\"\""), HasSubstr(cause)));
    EXPECT_THAT(outcome.log, testing::ElementsAre(HasSubstr(cause)));
  }
  // In the long form nothing may be skipped.
  static bool is_long_form() {
    const char* form = std::getenv("LATHE_FAULT_CAMPAIGN");
    return form != nullptr && std::string(form) == "long";
  }

  std::string program_ = LATHE_ENVIRONMENT_CHILD, scratch_, store_;
};

#define SKIP_UNLESS(possible, reason)         \
  do {                                        \
    if (possible) break;                      \
    ASSERT_FALSE(is_long_form()) << (reason); \
    GTEST_SKIP() << (reason);                 \
  } while (false)

TEST_F(EnvironmentTest, WorksInMemoryWithoutAnyVariable) {
  expect_memory_only({}, "HOME names a directory");
  const Outcome asked = run_with({"LATHE_CACHE_DIR="}, {"16"});
  EXPECT_TRUE(asked.succeeded) << asked.out;
  EXPECT_THAT(asked.log, IsEmpty()) << "no warning if no directory was asked for";
}

TEST_F(EnvironmentTest, WorksInMemoryIfTheDirectoryIsUnusable) {
  std::ofstream(scratch_ + "/file") << "x";
  expect_memory_only({"HOME=" + scratch_ + "/file"}, "Not a directory");
  fs::create_directory(store_);
  ASSERT_EQ(chmod(store_.c_str(), 0777), 0);
  fs::create_directory(store_ + "/ukernels");
  ASSERT_EQ(chmod((store_ + "/ukernels").c_str(), 0777), 0);
  expect_memory_only(in_store(), "everybody may write");
  fs::remove(store_ + "/ukernels");
  ASSERT_EQ(chmod(store_.c_str(), 0700), 0);
  fs::create_directory_symlink(store_, scratch_ + "/link");
  expect_memory_only({"LATHE_CACHE_DIR=" + scratch_ + "/link"}, "symbolic link");
  EXPECT_TRUE(fs::is_empty(store_));
  // Only root can change a directory's owner; for other users the root directory belongs to somebody else.
  if (geteuid() == 0) ASSERT_EQ(chown(store_.c_str(), 12345, 12345), 0);
  expect_memory_only({"LATHE_CACHE_DIR=" + (geteuid() == 0 ? store_ : "/")}, "belongs to user");
}

TEST_F(EnvironmentTest, SetUserIdProgramIgnoresTheEnvironment) {
  fs::copy_file(program_, scratch_ + "/child");
  program_ = scratch_ + "/child";
  const Strings all = {in_store()[0], "HOME=" + scratch_, "XDG_CACHE_HOME=" + scratch_};
  const Outcome plain = run_with(all, {"16"});
  EXPECT_TRUE(plain.succeeded) << plain.out;
  EXPECT_EQ(plain["secure"], 0);
  EXPECT_THAT(plain.out, HasSubstr("\"directory\":\"" + store_ + "\""));
  const bool made =
      geteuid() == 0 && chown(program_.c_str(), 65534, 65534) == 0 && chmod(program_.c_str(), 04755) == 0;
  const Outcome secure = run_with(all, {"16"});
  SKIP_UNLESS(made && secure["secure"] == 1,
              "only root can make a set-user-ID program, on a file system that honours it");
  EXPECT_TRUE(secure.succeeded) << secure.out;
  EXPECT_EQ(secure["compiles"], 1);
  EXPECT_THAT(secure.out, HasSubstr("\"directory\":\"\""));
  EXPECT_THAT(secure.log, testing::ElementsAre(HasSubstr("HOME names a directory")));
}

// Cold and warm starts of processes whose clocks differ by years.
TEST_F(EnvironmentTest, WarmStartWorksWithClocksTwoYearsOff) {
  for (const int64_t off : {kTwoYears, -kTwoYears}) {
    fs::remove_all(store_);
    const Outcome cold = run({clock(off), "16", "32"});
    EXPECT_TRUE(cold.succeeded) << cold.out;
    EXPECT_NEAR(static_cast<double>(cold["now"]), static_cast<double>(time(nullptr) + off), 86400.0);
    EXPECT_EQ(cold["compiles"], 2);
    for (const int64_t later : {-off, int64_t{0}, off}) {
      const Outcome warm = run({clock(later), "16", "32"});
      EXPECT_TRUE(warm.succeeded) << warm.out;
      EXPECT_EQ(warm["disk_hits"], 2);
      EXPECT_EQ(warm["compiles"] + warm["rejects"], 0);
      EXPECT_THAT(warm.log, IsEmpty());
      EXPECT_THAT(warm.out, testing::Not(HasSubstr("\"age_seconds\":-")));
    }
  }
}

// The least recently used entry must be evicted, whatever the clocks of its users.
TEST_F(EnvironmentTest, EvictsLeastRecentlyUsedWithClocksTwoYearsOff) {
  for (const int64_t off : {kTwoYears, -kTwoYears}) {
    fs::remove_all(store_);
    ASSERT_TRUE(run({clock(off), "16", "32"}).succeeded);
    ASSERT_EQ(run({clock(-off), "16"})["disk_hits"], 1);
    // Eviction goes down to 7/8 of the cap: room for the new kernel, its record and one and a half others.
    const uintmax_t cap = (5 * largest(".lathe") / 2 + largest(".record")) * 8 / 7;
    Strings capped = in_store();
    capped.push_back("LATHE_CACHE_BYTES=" + std::to_string(cap));
    const Outcome third = run_with(capped, {clock(off), "48"});
    EXPECT_TRUE(third.succeeded) << third.out;
    EXPECT_EQ(third["evictions"], 1) << third.out;
    const Outcome stayed = run({clock(-off), "16", "48"}), went = run({"32"});
    EXPECT_EQ(stayed["disk_hits"], 2);
    EXPECT_EQ(went["compiles"], 1);
  }
}

// A lock is valid as long as its holder lives, whatever its time stamp. A held lock must not be broken, and
// an old one without a holder must not be waited for.
TEST_F(EnvironmentTest, LocksWorkWithClocksTwoYearsOff) {
  for (const int64_t off : {kTwoYears, -kTwoYears}) {
    fs::remove_all(store_);
    ASSERT_EQ(run({"16"})["compiles"], 1);
    const std::string made = entry(), aside = scratch_ + "/aside",
                      lock = made.substr(0, made.size() - 5) + "lock";
    fs::rename(made, aside);
    const int holder = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(flock(holder, LOCK_EX | LOCK_NB), 0);
    const pid_t waiting = start({clock(off), "16"}, in_store());
    const auto waits = [&] {
      std::error_code gone;
      for (const auto& file : fs::directory_iterator("/proc/" + std::to_string(waiting) + "/fd", gone))
        if (fs::read_symlink(file.path(), gone) == lock) return true;
      return false;
    };
    while (!waits() && waitpid(waiting, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the waiter polls every 10 ms
    fs::rename(aside, made);
    unlink(lock.c_str());
    close(holder);
    const Outcome waited = finish(waiting);
    EXPECT_TRUE(waited.succeeded) << waited.out;
    EXPECT_EQ(waited["compiles"], 0) << "the lock was broken";
    EXPECT_EQ(waited["disk_hits"], 1);

    fs::remove(made);
    std::ofstream(lock) << "";
    const auto before = std::chrono::steady_clock::now();
    const Outcome free = run({clock(off), "16"});
    EXPECT_TRUE(free.succeeded) << free.out;
    EXPECT_EQ(free["compiles"], 1);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(60))
        << "it waited for a lock without a holder";
    EXPECT_FALSE(fs::exists(lock));
  }
}

TEST_F(EnvironmentTest, ReadOnlyDirectoryIsReadAndNotWritten) {
  fs::create_directory(store_);
  const MountNamespace own(store_, "size=1m,mode=0700");
  SKIP_UNLESS(own.refusal().empty(), own.refusal());
  ASSERT_EQ(run({"16"}, &own)["compiles"], 1);
  const auto remount = [&](unsigned long flags) {
    return own.run([&] {
      return mount(nullptr, store_.c_str(), nullptr, MS_REMOUNT | MS_NOSUID | MS_NODEV | flags, nullptr) == 0;
    });
  };
  ASSERT_TRUE(remount(MS_RDONLY));
  const Outcome read_only = run({"16", "32", "48"}, &own);
  EXPECT_TRUE(read_only.succeeded) << read_only.out;
  EXPECT_EQ(read_only["disk_hits"], 1);
  EXPECT_EQ(read_only["compiles"], 2);
  EXPECT_THAT(read_only.log, testing::ElementsAre(HasSubstr("cannot write")));
  ASSERT_TRUE(remount(0));
  const Outcome after = run({"16", "32"}, &own);
  EXPECT_EQ(after["disk_hits"], 1);
  EXPECT_EQ(after["compiles"], 1);
}

// More kernels than fit in 100 KB. Every entry on disk must be complete; the other kernels are in memory.
TEST_F(EnvironmentTest, WorksOnAFileSystemOf100Kilobytes) {
  fs::create_directory(store_);
  Strings products;
  for (int n = 16; n <= 24 * 16; n += 16) products.push_back(std::to_string(n));
  const MountNamespace own(store_, "size=100k,mode=0700");
  SKIP_UNLESS(own.refusal().empty(), own.refusal());
  const Outcome cold = run(products, &own), warm = run(products, &own);
  for (const Outcome& outcome : {cold, warm}) {
    EXPECT_TRUE(outcome.succeeded) << outcome.out;
    EXPECT_EQ(outcome["rejects"], 0);
    EXPECT_THAT(outcome.log, testing::ElementsAre(HasSubstr("cannot write")));
  }
  EXPECT_EQ(cold["compiles"], static_cast<int64_t>(products.size()));
  EXPECT_GT(warm["disk_hits"], 2);
  EXPECT_EQ(warm["disk_hits"] + warm["compiles"], static_cast<int64_t>(products.size()));
  // With a cap that fits, the store evicts and stays writable.
  ASSERT_TRUE(own.run([&] {
    for (const auto& file : fs::directory_iterator(store_)) fs::remove(file.path());
    return true;
  }));
  Strings capped = in_store();
  capped.emplace_back("LATHE_CACHE_BYTES=40K");
  const Outcome bounded = run_with(capped, products, &own);
  EXPECT_TRUE(bounded.succeeded) << bounded.out;
  EXPECT_GT(bounded["evictions"], 0);
  EXPECT_THAT(bounded.log, IsEmpty());
}

TEST_F(EnvironmentTest, FullFileSystemIsUsedAgainWhenThereIsSpace) {
  fs::create_directory(store_);
  const std::string ballast = store_ + "/ballast";
  const MountNamespace own(store_, "size=100k,mode=0700");
  SKIP_UNLESS(own.refusal().empty(), own.refusal());
  ASSERT_TRUE(own.run([&] { return !(std::ofstream(ballast) << std::string(1 << 20, 'x')).flush(); }));
  const Outcome full = run({"16", "32", "remove=" + ballast, "48"}, &own);
  EXPECT_TRUE(full.succeeded) << full.out;
  EXPECT_EQ(full["compiles"], 3);
  EXPECT_THAT(full.log, testing::ElementsAre(HasSubstr("cannot write")));
  const Outcome after = run({"48", "16"}, &own);
  EXPECT_EQ(after["disk_hits"], 1);
  EXPECT_EQ(after["compiles"], 1);
  EXPECT_EQ(after["rejects"], 0);
}

}  // namespace
}  // namespace lathe::fault
