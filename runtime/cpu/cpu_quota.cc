#include "runtime/cpu/cpu_quota.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace lathe {
namespace {

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

enum class Version { kOther, k1, k2 };

// A mounted cgroup hierarchy that may have CPU quotas.
struct Mount {
  Version version;
  std::string root;   // the group that appears at `point`
  std::string point;  // "" for "/"
};

// A group, relative to the root of the process's cgroup namespace: "/../a/b" goes 1 level above that root,
// then down to a, then to b.
struct GroupPath {
  size_t above = 0;
  std::vector<std::string> names;
};

// The group of the process in each cgroup version.
struct Membership {
  std::string version1, version2;  // "": the process is in no group

  const std::string& of(Version version) const { return version == Version::k2 ? version2 : version1; }
};

GroupPath parse_group(const std::string& path) {
  GroupPath group;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name == "..") {
      ++group.above;
    } else {
      group.names.emplace_back(name);
    }
  }
  return group;
}

// mountinfo writes space, tab, newline and backslash as octal escapes such as "\040".
std::string unescape(absl::string_view text) {
  const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') << 6 | (text[i + 2] - '0') << 3 | (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

Version version_of(absl::string_view file_system, absl::string_view options) {
  if (file_system == "cgroup2") return Version::k2;
  const std::vector<absl::string_view> names = absl::StrSplit(options, ',');
  const bool has_cpu = std::find(names.begin(), names.end(), "cpu") != names.end();
  return file_system == "cgroup" && has_cpu ? Version::k1 : Version::kOther;
}

// Linux, Documentation/filesystems/proc.rst, section 3.5.
std::vector<Mount> parse_mounts(const std::string& mountinfo) {
  std::map<std::string, Mount> at_point;  // a later mount at the same point hides earlier ones
  for (const absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 10) continue;
    const auto dash = std::find(fields.begin() + 6, fields.end(), "-");  // ends the optional fields
    if (fields.end() - dash < 4) continue;
    std::string point = unescape(fields[4]);
    at_point[point] = {version_of(dash[1], dash[3]), unescape(fields[3]), point == "/" ? "" : point};
  }
  std::vector<Mount> mounts;
  for (auto& [point, mount] : at_point)
    if (mount.version != Version::kOther) mounts.push_back(std::move(mount));
  return mounts;
}

// Parses lines "ID:controllers:path"; version 2 has ID 0 and no controllers.
Membership parse_membership(const std::string& cgroup) {
  Membership membership;
  for (const absl::string_view line : absl::StrSplit(cgroup, '\n')) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    if (fields[0] == "0" && fields[1].empty()) membership.version2 = std::string(fields[2]);
    const std::vector<absl::string_view> controllers = absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end())
      membership.version1 = std::string(fields[2]);
  }
  return membership;
}

// The folders of `group` and of the groups above it in this mount. Empty if the mount shows another branch of
// the hierarchy. If the group's names lie outside the namespace and are unknown, only the root of the mount.
std::vector<std::string> group_folders(const Mount& mount, const GroupPath& group) {
  const GroupPath top = parse_group(mount.root);
  const auto& names = group.names;
  const bool is_unnamed_ancestor = top.above > group.above && top.names.empty();
  const bool is_named_ancestor = top.above == group.above && top.names.size() <= names.size() &&
                                 std::equal(top.names.begin(), top.names.end(), names.begin());
  if (is_unnamed_ancestor) return {mount.point};
  if (!is_named_ancestor) return {};
  std::vector<std::string> folders = {mount.point};
  for (size_t i = top.names.size(); i < names.size(); ++i)
    folders.push_back(absl::StrCat(folders.back(), "/", names[i]));
  return folders;
}

double quota_in(const CpuSystem& system, Version version, const std::string& folder) {
  const auto read = [&](const char* file) {
    return read_system_file(system, absl::StrCat(folder, "/", file));
  };
  return version == Version::k2 ? parse_cpu_max(read("cpu.max"))
                                : parse_cfs_quota(read("cpu.cfs_quota_us"), read("cpu.cfs_period_us"));
}

double cpus_of(const std::vector<std::string>& fields) {
  double quota, period;
  if (fields.size() != 2 || !absl::SimpleAtod(fields[0], &quota) || !absl::SimpleAtod(fields[1], &period))
    return kNoQuota;
  const double cpus = quota / period;
  return quota > 0 && period > 0 && std::isfinite(cpus) && cpus > 0 ? cpus : kNoQuota;
}

}  // namespace

double parse_cpu_max(const std::string& text) {
  return cpus_of(absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty()));
}

double parse_cfs_quota(const std::string& quota, const std::string& period) {
  return cpus_of({quota, period});
}

double cpu_quota(const CpuSystem& system) {
  const std::string mountinfo = read_system_file(system, "/proc/self/mountinfo");
  const std::string cgroup = read_system_file(system, "/proc/self/cgroup");
  std::vector<Mount> mounts = parse_mounts(mountinfo);
  Membership membership = parse_membership(cgroup);
  if (mountinfo.empty() || cgroup.empty()) {  // no /proc: assume the usual mount points
    mounts = {{Version::k2, "/", "/sys/fs/cgroup"},
              {Version::k1, "/", "/sys/fs/cgroup/cpu"},
              {Version::k1, "/", "/sys/fs/cgroup/cpu,cpuacct"}};
    membership = {"/", "/"};
  }
  double least = kNoQuota;
  for (const Mount& mount : mounts) {
    const std::string& path = membership.of(mount.version);
    if (path.empty()) continue;
    for (const std::string& folder : group_folders(mount, parse_group(path)))
      least = std::min(least, quota_in(system, mount.version, folder));
  }
  return least;
}

int32_t threads_for(double quota) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  return quota < kMost ? std::max(1, static_cast<int32_t>(std::ceil(quota))) : kMost;
}

}  // namespace lathe
