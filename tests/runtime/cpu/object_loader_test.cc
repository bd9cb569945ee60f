#include "runtime/cpu/object_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "../test_kernels.h"
#include "core/args.h"

namespace lathe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void expect_refused(const absl::StatusOr<std::vector<void*>>& linked, const std::string& cause) {
  ASSERT_EQ(linked.status().code(), absl::StatusCode::kInvalidArgument) << linked.status();
  EXPECT_THAT(std::string(linked.status().message()), HasSubstr(cause));
}

TEST(ObjectLoader, LinksConstantsDataAndCalls) {
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("relocations"), {"relocations"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  float out[4];
  ArgumentBlock args;
  args.d = out;
  for (int64_t task = 0; task < 4; ++task) reinterpret_cast<CpuTask>((*linked)[0])(&args, task);
  EXPECT_EQ(out[0], 0.5f * 2 + 41);
  EXPECT_EQ(out[1], 1.5f * 3 + 41);
  EXPECT_EQ(out[2], 2.5f * 2 + 41);
  EXPECT_EQ(out[3], 3.5f * 3 + 41);
}

TEST(ObjectLoader, ReturnsAddressesInOrder) {
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("steps"), {"second", "first", "second"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  EXPECT_EQ((*linked)[0], (*linked)[2]);
  EXPECT_NE((*linked)[0], (*linked)[1]);
}

TEST(ObjectLoader, FindsHiddenSymbols) {
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("symbols"), {"hidden"});
  ASSERT_TRUE(linked.ok()) << linked.status();
  int64_t out = 0;
  ArgumentBlock args;
  args.d = &out;
  reinterpret_cast<CpuTask>((*linked)[0])(&args, 0);
  EXPECT_EQ(out, 5);
}

TEST(ObjectLoader, CodeIsNeverWritable) {
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("relocations"), {"relocations"});
  ASSERT_TRUE(linked.ok());
  const auto address = reinterpret_cast<uintptr_t>((*linked)[0]);
  std::ifstream maps("/proc/self/maps");
  std::string line;
  bool found = false;
  while (std::getline(maps, line)) {
    unsigned long begin, end;
    char mode[5] = {};
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, mode) != 3) continue;
    if (address < begin || address >= end) continue;
    EXPECT_STREQ(mode, "r-xp") << line;
    found = true;
  }
  EXPECT_TRUE(found);
}

TEST(ObjectLoader, SameSymbolsInManyObjectsDoNotClash) {
  ObjectLoader loader;
  const std::string object = read_test_object("steps");
  auto one = loader.link(object, {"first"});
  auto two = loader.link(object, {"first"});
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE((*one)[0], (*two)[0]);
}

TEST(ObjectLoader, NamesUndefinedSymbols) {
  ObjectLoader loader;
  auto linked = loader.link(read_test_object("undefined"), {"undefined"});
  expect_refused(linked, "undefined symbol ");
  EXPECT_THAT(std::string(linked.status().message()),
              AllOf(HasSubstr("sqrtf_of_nobody"), HasSubstr("data_of_nobody")));
}

// malloc exists in the process, but an object must not find it.
TEST(ObjectLoader, CannotSeeSymbolsOfTheHostProcess) {
  std::string object = read_test_object("undefined");
  const std::string from = "sqrtf_of_nobody", to = std::string("malloc") + std::string(9, '\0');
  const size_t at = object.find(from);
  ASSERT_NE(at, std::string::npos);
  object.replace(at, from.size(), to);
  ObjectLoader loader;
  expect_refused(loader.link(object, {"undefined"}), "malloc");
}

TEST(ObjectLoader, RejectsMissingLocalAndDataSymbols) {
  ObjectLoader loader;
  const std::string object = read_test_object("symbols");
  expect_refused(loader.link(object, {"absent"}), "symbol absent is missing");
  expect_refused(loader.link(object, {"local"}), "symbol local is missing");
  expect_refused(loader.link(object, {"data"}), "symbol data is not a function");
  expect_refused(loader.link(object, {"hidden", "absent"}), "symbol absent is missing");
}

TEST(ObjectLoader, RejectsAnotherArchitecture) {
  ObjectLoader loader;
  expect_refused(loader.link(read_test_object("foreign"), {"first"}), "this device is");
}

TEST(ObjectLoader, RejectsEveryTruncation) {
  ObjectLoader loader;
  for (const char* name : {"symbols", "relocations"}) {
    const std::string object = read_test_object(name);
    for (size_t length = 0; length < object.size(); length += length < 256 ? 1 : 7) {
      EXPECT_EQ(loader.link(object.substr(0, length), {"hidden"}).status().code(),
                absl::StatusCode::kInvalidArgument)
          << name << " cut to " << length;
    }
  }
}

TEST(ObjectLoader, RejectsGarbage) {
  ObjectLoader loader;
  expect_refused(loader.link("", {"first"}), "cannot link");
  expect_refused(loader.link(std::string(4096, '\0'), {"first"}), "cannot link");
  expect_refused(loader.link(std::string(4096, '\x7f'), {"first"}), "cannot link");
  expect_refused(loader.link("\x7f"
                             "ELF",
                             {"first"}),
                 "cannot link");
  std::string object = read_test_object("symbols");
  std::fill(object.begin() + 16, object.begin() + 64, '\xff');  // everything in the header except the magic
  EXPECT_FALSE(loader.link(object, {"hidden"}).ok());
}

TEST(ObjectLoader, WorksAfterFailures) {
  ObjectLoader loader;
  EXPECT_FALSE(loader.link("junk", {"first"}).ok());
  EXPECT_FALSE(loader.link(read_test_object("undefined"), {"undefined"}).ok());
  EXPECT_TRUE(loader.link(read_test_object("steps"), {"first"}).ok());
}

TEST(ObjectLoader, LinksFromManyThreads) {
  ObjectLoader loader;
  const std::string object = read_test_object("relocations");
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        auto linked = loader.link(object, {"relocations"});
        float out = 0;
        ArgumentBlock args;
        args.d = &out;
        if (linked.ok()) reinterpret_cast<CpuTask>((*linked)[0])(&args, 0);
        right += out == 42.0f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 100);
}

// Threads link all the time. A forked child must link, too, whatever locks were held at the fork.
TEST(ObjectLoader, LinksInAForkedChildWhileThreadsLink) {
  ObjectLoader loader;
  const std::string object = read_test_object("symbols");
  const auto value = [&](void* entry) {
    int64_t out = 0;
    ArgumentBlock args;
    args.d = &out;
    reinterpret_cast<CpuTask>(entry)(&args, 0);
    return out;
  };
  auto before = loader.link(object, {"hidden"});
  ASSERT_TRUE(before.ok()) << before.status();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      // Pause in between, because linked code stays mapped and each fork copies the mappings.
      for (; !stop; usleep(500)) EXPECT_TRUE(loader.link(object, {"hidden"}).ok());
    });
  for (int i = 0; i < 60; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      auto linked = loader.link(object, {"hidden"});
      _exit(linked.ok() && value((*linked)[0]) == 5 && value((*before)[0]) == 5 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "fork " << i;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// One millisecond is the documented limit for loading a kernel from a warm disk; linking is a part of that.
TEST(ObjectLoader, LinksInLessThanAMillisecond) {
  const std::string object = read_test_object("relocations");
  using Clock = std::chrono::steady_clock;
  ObjectLoader loader;
  std::vector<double> milliseconds;
  for (int i = 0; i < 101; ++i) {
    const auto begin = Clock::now();
    auto linked = loader.link(object, {"relocations"});
    const auto end = Clock::now();
    ASSERT_TRUE(linked.ok());
    milliseconds.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
  }
  const double first = milliseconds[0];
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("  link: first %.3f ms, median %.3f ms, worst %.3f ms\n", first, milliseconds[50],
              milliseconds[100]);
  EXPECT_LT(milliseconds[50], 1.0);
}

}  // namespace
}  // namespace lathe
