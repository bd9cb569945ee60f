// The bundles that lie under the writable store: looked up in their order, each opened at the first look.
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

// Thread-safe, and without a lock: a fork leaves nothing behind that a child would wait for.
class BundleSet {
 public:
  BundleSet(const std::vector<std::string>& paths, Logger logger);

  bool empty() const { return members_.empty(); }
  // From the first bundle that has it whole. kNotFound: from none. What is missing or damaged is a warning,
  // once a bundle; `defects` counts those damaged ones that this look met for the first time. A file that is
  // missing or cannot be read is looked for again.
  absl::StatusOr<Artifact> read(const Key& key, uint64_t* defects);
  // The same of a record.
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
  // Null: not to be had.
  const Bundle* open(Member* member, uint64_t* defects);
  void warn(Member* member, const absl::Status& status);

  const Logger logger_;
  std::deque<Member> members_;
};

}  // namespace lathe
