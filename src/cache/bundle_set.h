// The bundles that lie under the writable store: looked up in their order, each opened at the first look.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "cache/bundle.h"

namespace lathe {

// Thread-safe.
class BundleSet {
 public:
  BundleSet(const std::vector<std::string>& paths, Logger logger);

  bool empty() const { return members_.empty(); }
  // From the first bundle that has it whole. kNotFound: from none. What is missing or damaged is a warning,
  // once a bundle; `defects` counts those damaged ones that this look met for the first time. A missing file
  // is looked for again.
  absl::StatusOr<Artifact> read(const Key& key, uint64_t* defects);
  // The same of a record.
  absl::StatusOr<PlanRecord> read_record(const Key& key, uint64_t* defects);

 private:
  struct Member {
    std::string path;
    std::unique_ptr<const Bundle> bundle;  // never closed once open
    bool refused = false, warned = false;
  };
  template <typename T>
  absl::StatusOr<T> first(absl::StatusOr<T> (Bundle::*read)(const Key&) const, const Key& key,
                          uint64_t* defects);
  // Null: not to be had.
  const Bundle* open(Member* member, uint64_t* defects);
  void warn(Member* member, const absl::Status& status);

  const Logger logger_;
  std::mutex mutex_;
  std::vector<Member> members_;  // all but `path` under mutex_
};

}  // namespace lathe
