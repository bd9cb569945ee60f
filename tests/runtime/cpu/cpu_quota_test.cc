#include "runtime/cpu/cpu_quota.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/cpu/cpu_facts.h"
#include "system_tree.h"

namespace lathe {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Lines of /proc/self/mountinfo, as proc(5) describes them.
std::string mount_line(const std::string& type, const std::string& root, const std::string& point,
                       const std::string& options) {
  return "31 23 0:26 " + root + " " + point + " rw,nosuid,nodev,noexec,relatime shared:9 - " + type + " " +
         type + " " + options + "\n";
}
std::string v1_mount(const std::string& root, const std::string& point = "/sys/fs/cgroup/cpu,cpuacct") {
  return mount_line("cgroup", root, point, "rw,cpu,cpuacct");
}
std::string v2_mount(const std::string& root, const std::string& point = "/sys/fs/cgroup") {
  return mount_line("cgroup2", root, point, "rw,nsdelegate,memory_recursiveprot");
}
const char kOtherMounts[] =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
    "23 22 0:21 / /sys rw,nosuid - sysfs sysfs rw\n"
    "40 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:34 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";

SystemTree& with_groups(SystemTree& tree, const std::string& mounts, const std::string& groups) {
  return tree.write("/proc/self/mountinfo", kOtherMounts + mounts).write("/proc/self/cgroup", groups);
}
void set_v1(SystemTree& tree, const std::string& folder, const std::string& quota,
            const std::string& period = "100000") {
  tree.write(folder + "/cpu.cfs_quota_us", quota + "\n").write(folder + "/cpu.cfs_period_us", period + "\n");
}

const char kContainer[] = "/docker/4f1c0d2a";

TEST(CpuQuota, ReadsDockerQuotaInVersion1) {
  SystemTree tree;
  with_groups(
      tree, v1_mount(kContainer),
      "11:memory:/docker/4f1c0d2a\n4:cpu,cpuacct:/docker/4f1c0d2a\n1:name=systemd:/docker/4f1c0d2a\n");
  set_v1(tree, "/sys/fs/cgroup/cpu,cpuacct", "100000");
  EXPECT_EQ(cpu_quota(tree.system()), 1);
  set_v1(tree, "/sys/fs/cgroup/cpu,cpuacct", "-1");
  EXPECT_EQ(cpu_quota(tree.system()), kNone);
}

TEST(CpuQuota, ReadsDockerQuotaInVersion2) {
  SystemTree tree;
  with_groups(tree, v2_mount("/"), "0::/\n").write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 2.5);
  tree.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), kNone);
}

// A container in the host's cgroup namespace sees the host's path, and its own group is mounted as the root.
TEST(CpuQuota, ReadsDockerQuotaInTheHostsNamespace) {
  SystemTree tree;
  with_groups(tree, v2_mount("/system.slice/docker-4f1c.scope"), "0::/system.slice/docker-4f1c.scope/init\n")
      .write("/sys/fs/cgroup/cpu.max", "300000 100000\n")
      .write("/sys/fs/cgroup/init/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 3);
}

TEST(CpuQuota, ReadsTheQuotaOfASystemdSliceAboveTheService) {
  SystemTree tree;
  with_groups(tree, v2_mount("/"), "0::/batch.slice/batch-night.slice/job.service\n")
      .write("/sys/fs/cgroup/batch.slice/cpu.max", "400000 100000\n")
      .write("/sys/fs/cgroup/batch.slice/batch-night.slice/cpu.max", "150000 100000\n")
      .write("/sys/fs/cgroup/batch.slice/batch-night.slice/job.service/cpu.max", "max 100000\n")
      .write("/sys/fs/cgroup/other.slice/cpu.max", "10000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 1.5);
}

TEST(CpuQuota, ReadsTheQuotaOfAKubernetesPod) {
  SystemTree two;
  const std::string pods = "/kubepods.slice/kubepods-burstable.slice",
                    pod = pods + "/kubepods-burstable-pod7.slice";
  with_groups(two, v2_mount("/"), "0::" + pod + "/cri-containerd-a1.scope\n")
      .write("/sys/fs/cgroup" + pods + "/cpu.max", "max 100000\n")
      .write("/sys/fs/cgroup" + pod + "/cpu.max", "200000 100000\n")
      .write("/sys/fs/cgroup" + pod + "/cri-containerd-a1.scope/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpu_quota(two.system()), 2);

  SystemTree one;
  with_groups(one, v1_mount("/"), "4:cpu,cpuacct:/kubepods/burstable/pod7/a1\n");
  set_v1(one, "/sys/fs/cgroup/cpu,cpuacct/kubepods", "-1");
  set_v1(one, "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod7", "120000", "40000");
  set_v1(one, "/sys/fs/cgroup/cpu,cpuacct/kubepods/burstable/pod7/a1", "-1");
  EXPECT_EQ(cpu_quota(one.system()), 3);
}

TEST(CpuQuota, TakesTheSmallerQuotaOfBothVersions) {
  SystemTree tree;
  with_groups(tree, v1_mount("/", "/sys/fs/cgroup/cpu") + v2_mount("/", "/sys/fs/cgroup/unified"),
              "5:cpu:/job\n2:cpuacct:/elsewhere\n0::/user.slice\n");
  set_v1(tree, "/sys/fs/cgroup/cpu/job", "200000");
  set_v1(tree, "/sys/fs/cgroup/cpu/elsewhere", "100000");  // belongs to another controller
  EXPECT_EQ(cpu_quota(tree.system()), 2);
  tree.write("/sys/fs/cgroup/unified/user.slice/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 0.5);
}

TEST(CpuQuota, FindsMountsInUnusualPlaces) {
  SystemTree tree;
  with_groups(tree, v1_mount("/my\\040jobs", "/mnt/cpu\\040time"), "4:cpuacct,cpu:/my jobs/b:c\n");
  set_v1(tree, "/mnt/cpu time/b:c", "700000");
  EXPECT_EQ(cpu_quota(tree.system()), 7);
  with_groups(tree, v2_mount("/", "/"), "0::/a\n").write("/a/cpu.max", "600000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 6);
}

TEST(CpuQuota, HandlesNamespacesThatBeginBelowTheMount) {
  SystemTree tree;
  // The mount is older than the namespace: its root is two levels above the process, with unknown names.
  with_groups(tree, v2_mount("/../.."), "0::/\n").write("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 4);
  // The process was moved to a sibling of the root of its namespace.
  with_groups(tree, v2_mount("/.."), "0::/../sibling/leaf\n")
      .write("/sys/fs/cgroup/sibling/cpu.max", "300000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 3);
  // The mounted groups are not above the process, so their quota does not apply.
  for (const char* group : {"0::/../sibling/leaf\n", "0::/../../a\n"}) {
    with_groups(tree, v2_mount("/"), group);
    EXPECT_EQ(cpu_quota(tree.system()), kNone) << group;
  }
}

TEST(CpuQuota, IgnoresOtherBranches) {
  SystemTree tree;
  tree.write("/sys/fs/cgroup/cpu.max", "100000 100000\n")
      .write("/sys/fs/cgroup/b/cpu.max", "100000 100000\n");
  for (const char* root : {"/a/bc", "/b", "/a/b/c/d", "/../a"}) {
    with_groups(tree, v2_mount(root), "0::/a/b/c\n");
    EXPECT_EQ(cpu_quota(tree.system()), kNone) << root;
  }
}

TEST(CpuQuota, IgnoresAHiddenMount) {
  SystemTree tree;
  with_groups(tree, v2_mount("/") + "90 31 0:50 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", "0::/\n")
      .write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), kNone);
}

TEST(CpuQuota, UsesTheGroupAboveADeletedGroup) {
  SystemTree tree;
  with_groups(tree, v2_mount("/"), "0::/a/b (deleted)\n")
      .write("/sys/fs/cgroup/a/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 2);
}

TEST(CpuQuota, WithoutProcReadsTheUsualMountPoints) {
  SystemTree two;
  two.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cpu_quota(two.system()), 2);
  for (const char* folder : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    SystemTree one;
    set_v1(one, folder, "300000");
    EXPECT_EQ(cpu_quota(one.system()), 3) << folder;
  }
}

TEST(CpuQuota, IsInfiniteWithoutGroups) {
  SystemTree empty;
  EXPECT_EQ(cpu_quota(empty.system()), kNone);
  SystemTree tree;
  with_groups(tree, "", "0::/\n");
  EXPECT_EQ(cpu_quota(tree.system()), kNone);
  with_groups(tree, v2_mount("/"), "0::/a/b\n");  // a kernel without the controller has no cpu.max
  EXPECT_EQ(cpu_quota(tree.system()), kNone);
}

TEST(CpuQuota, IsFoundInMegabytesOfMountinfo) {
  SystemTree tree;
  std::string layers(4000, 'x'), mounts;
  for (int i = 0; i < 500; ++i)
    mounts += mount_line("overlay", "/", "/run/c" + std::to_string(i), "lowerdir=" + layers);
  with_groups(tree, mounts + v2_mount("/"), "0::/\n").write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(cpu_quota(tree.system()), 1);
}

TEST(CpuQuota, IgnoresMalformedTexts) {
  for (const char* text : {"", "1", "max", "0 100000", "1 0", "-1 100000", "a b", "1 2 3", "nan 1", "inf 1",
                           "1 inf", "1e300 1e-300", "1 nan", "\n"})
    EXPECT_EQ(parse_cpu_max(text), kNone) << text;
  for (const char* quota : {"", "-1", "0", "x", "nan"})
    EXPECT_EQ(parse_cfs_quota(quota, "100000"), kNone) << quota;
  for (const char* period : {"", "-1", "0", "x"})
    EXPECT_EQ(parse_cfs_quota("100000", period), kNone) << period;
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cfs_quota("50000\n", "100000\n"), 0.5);

  for (const char* mounts :
       {"x\n", "31 23 0:26 / /a rw - cgroup2\n", "1 2 3 4 5 6 7 8 9 10 11 12\n", " \n - - - - -\n",
        "31 23 0:26 / /\\04 rw - cgroup2 none rw\n", "- - - - - - - - - -\n"}) {
    for (const char* groups : {"0::/\n", "0:/\n", ":::\n", "x", "0::a\n", "4:cpu:\n"}) {
      SystemTree tree;
      tree.write("/proc/self/mountinfo", mounts).write("/proc/self/cgroup", groups);
      EXPECT_EQ(cpu_quota(tree.system()), kNone) << mounts << groups;
    }
  }
}

TEST(CpuQuota, RoundsThreadsUp) {
  EXPECT_EQ(threads_for(0.01), 1);
  EXPECT_EQ(threads_for(0.5), 1);
  EXPECT_EQ(threads_for(1), 1);
  EXPECT_EQ(threads_for(1.5), 2);
  EXPECT_EQ(threads_for(64), 64);
  EXPECT_EQ(threads_for(1e300), INT32_MAX);
  EXPECT_EQ(threads_for(kNone), INT32_MAX);
}

// The results are the smaller of the mask's cores and the quota.
TEST(CpuQuota, LimitsWorkersAndProcessors) {
  SystemTree tree({0, 1, 2, 3});
  for (int i = 0; i < 4; ++i)
    tree.write("/sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/core_cpus_list",
               i < 2 ? "0-1\n" : "2-3\n");
  with_groups(tree, v1_mount("/"), "4:cpu,cpuacct:/job\n");
  struct Case {
    const char* quota;
    int32_t workers, processors;
  };
  for (const Case& c : {Case{"-1", 2, 4},
                        {"900000", 2, 4},
                        {"300000", 2, 3},
                        {"150000", 2, 2},
                        {"100000", 1, 1},
                        {"50000", 1, 1}}) {
    set_v1(tree, "/sys/fs/cgroup/cpu,cpuacct/job", c.quota);
    EXPECT_EQ(default_workers(tree.system()), c.workers) << c.quota;
    EXPECT_EQ(allowed_processors(tree.system()), c.processors) << c.quota;
  }
}

}  // namespace
}  // namespace lathe
