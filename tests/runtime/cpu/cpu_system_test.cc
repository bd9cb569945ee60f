#include "runtime/cpu/cpu_system.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <string>

#include "system_tree.h"

namespace lathe {
namespace {

std::string topology(int processor, const char* file = "core_cpus_list") {
  return processor_folder(processor) + "topology/" + file;
}

TEST(CpuSystem, HasTheMaskOfTheCallingThread) {
  const CpuSystem system = this_system();
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_EQ(static_cast<int>(system.processors.size()), CPU_COUNT(&mask));
  for (const int32_t processor : system.processors) EXPECT_TRUE(CPU_ISSET(processor, &mask)) << processor;
  EXPECT_TRUE(std::is_sorted(system.processors.begin(), system.processors.end()));
  EXPECT_FALSE(read_system_file(system, "/proc/self/stat").empty());
  EXPECT_EQ(read_system_file(system, "/proc/no/such/file"), "");
}

// The hardware threads of a core count as one core, even if the mask has only some of them.
TEST(CpuSystem, CountsCoresOfMasksWithGaps) {
  SystemTree tree({1, 3, 5, 8, 1500, 1501});
  for (const int first : {0, 2, 4, 8, 1500})  // two threads per core; 9 is outside the mask
    for (int i = 0; i < 2; ++i)
      tree.write(topology(first + i), std::to_string(first) + "-" + std::to_string(first + 1) + "\n");
  EXPECT_EQ(count_cores(tree.system()), 5);
}

TEST(CpuSystem, CountsCoresOfHybridProcessors) {
  SystemTree tree({0, 1, 2, 3, 4, 5, 6, 7});
  for (int i = 0; i < 4; ++i) tree.write(topology(i), i < 2 ? "0-1\n" : "2-3\n");  // two threads per core
  for (int i = 4; i < 8; ++i) tree.write(topology(i), std::to_string(i) + "\n");   // one thread per core
  EXPECT_EQ(count_cores(tree.system()), 6);
}

TEST(CpuSystem, CountsCoresOfOldKernels) {
  SystemTree tree({0, 1, 2, 3});
  for (int i = 0; i < 4; ++i) tree.write(topology(i, "thread_siblings_list"), i % 2 == 0 ? "0,2\n" : "1,3\n");
  EXPECT_EQ(count_cores(tree.system()), 2);
}

// A core that goes offline loses its folder.
TEST(CpuSystem, ProcessorsWithoutTopologyCountOnce) {
  SystemTree tree({0, 1, 2});
  tree.write(topology(0), "0-1\n").write(topology(1), "0-1\n");
  EXPECT_EQ(count_cores(tree.system()), 2);
  SystemTree bare({0, 7});
  EXPECT_EQ(count_cores(bare.system()), 2);
}

TEST(CpuSystem, WithoutSysCountsCoresFromCpuinfo) {
  SystemTree tree({0, 1, 2, 3, 4, 5});
  std::string text;
  for (int i = 0; i < 5; ++i)  // two sockets; processors 0 and 2 share a core; 5 is missing
    text += "processor\t: " + std::to_string(i) +
            "\nmodel name\t: a: b\nphysical id\t: " + std::to_string(i % 2) +
            "\ncore id\t\t: " + (i == 4 ? "1" : "0") + "\n\n";
  tree.write("/proc/cpuinfo", text);
  EXPECT_EQ(count_cores(tree.system()), 4);  // {0, 2}, {1, 3}, 4, 5
  tree.write("/proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\n\n::\n\nprocessor: x\n");
  EXPECT_EQ(count_cores(tree.system()), 6);
}

}  // namespace
}  // namespace lathe
