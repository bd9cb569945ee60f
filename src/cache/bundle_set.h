// The read-only bundles of a cache. They are searched in order, and each is opened when first searched.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "cache/bundle.h"

namespace lathe {

// Thread-safe and lock-free, so that the child of a fork never waits for a lost thread.
class BundleSet {
 public:
  BundleSet(const std::vector<std::string>& paths, Logger logger);

  bool empty() const { return members_.empty(); }
  // Returns the entry from the first bundle that has it undamaged; kNotFound if none does. A missing or
  // damaged bundle is one warning. `defects` is raised by the damaged bundles and entries found by this call.
  // A file that is missing or cannot be read is tried again at the next call.
  absl::StatusOr<Artifact> read(const Key& key, uint64_t* defects);
  // As read, for a record.
  absl::StatusOr<PlanRecord> read_record(const Key& key, uint64_t* defects);

 private:
  struct Member {
    explicit Member(std::string p) : path(std::move(p)) {}
    ~Member() { delete bundle.load(std::memory_order_relaxed); }
    const std::string path;
    std::atomic<const Bundle*> bundle{nullptr};  // owned, never closed once open
    std::atomic<bool> refused{false}, warned{false};
  };
  template <typename T>
  absl::StatusOr<T> first(absl::StatusOr<T> (Bundle::*read)(const Key&) const, const Key& key,
                          uint64_t* defects);
  // Null if the bundle cannot be opened.
  const Bundle* open(Member* member, uint64_t* defects);
  void warn(Member* member, const absl::Status& status);

  const Logger logger_;
  std::deque<Member> members_;
};

}  // namespace lathe
