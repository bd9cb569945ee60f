#include "cache/eviction.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "cache/store_files.h"
#include "cache/use_journal.h"

namespace lathe {
namespace {

struct Entry {
  std::string name;
  uint64_t bytes = 0, order = 0;
};

}  // namespace

absl::StatusOr<StoreSize> evict(int directory, uint64_t limit, uint64_t goal) {
  StoreSize size;
  std::vector<Entry> entries;
  LATHE_ASSIGN_OR_RETURN(std::vector<std::string> names, names_in(directory));
  for (std::string& name : names) {
    struct stat s;
    if (is_held(name)) reclaim(directory, name);
    if (!is_entry(name) && !is_record_file(name)) continue;
    if (fstatat(directory, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0) {
      size.bytes += static_cast<uint64_t>(s.st_size);
      entries.push_back({std::move(name), static_cast<uint64_t>(s.st_size), 0});
    } else if (errno != ENOENT) {
      return errno_status(errno, name);
    }
  }
  if (size.bytes <= limit) return size;

  const UseTable uses = read_uses(directory);
  for (Entry& e : entries) e.order = uses.of(fingerprint_of(e.name)).order;
  std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) {
    return std::tie(x.order, x.name) < std::tie(y.order, y.name);
  });
  for (const Entry& e : entries) {
    if (size.bytes <= goal) break;
    const bool removed = unlinkat(directory, e.name.c_str(), 0) == 0;
    if (!removed && errno != ENOENT) {
      size.kept.Update(errno_status(errno, e.name));
      continue;
    }
    // Count an entry that another process removed as freed, so that several processes that evict at once
    // remove no more than one would.
    size.bytes -= e.bytes;
    size.evicted += removed && is_entry(e.name);
  }
  return size;
}

}  // namespace lathe
