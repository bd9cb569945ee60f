#include "cache/bundle_set.h"

#include "absl/strings/str_cat.h"

namespace lathe {

BundleSet::BundleSet(const std::vector<std::string>& paths, Logger logger) : logger_(std::move(logger)) {
  for (const std::string& path : paths) {
    members_.emplace_back();
    members_.back().path = path;
  }
}

template <typename T>
absl::StatusOr<T> BundleSet::first(absl::StatusOr<T> (Bundle::*read)(const Key&) const, const Key& key,
                                   uint64_t* defects) {
  for (Member& member : members_) {
    const Bundle* bundle = open(&member, defects);
    if (bundle == nullptr) continue;
    absl::StatusOr<T> found = (bundle->*read)(key);
    if (found.ok()) return found;
    if (absl::IsNotFound(found.status())) continue;
    ++*defects;
    warn(&member, found.status());
  }
  return absl::NotFoundError("in no bundle");
}

absl::StatusOr<Artifact> BundleSet::read(const Key& key, uint64_t* defects) {
  return first(&Bundle::read, key, defects);
}

absl::StatusOr<PlanRecord> BundleSet::read_record(const Key& key, uint64_t* defects) {
  return first(&Bundle::read_record, key, defects);
}

const Bundle* BundleSet::open(Member* member, uint64_t* defects) {
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (member->bundle != nullptr || member->refused) return member->bundle.get();
    absl::StatusOr<std::unique_ptr<Bundle>> opened = Bundle::open(member->path);
    if (opened.ok()) {
      member->bundle = *std::move(opened);
      return member->bundle.get();
    }
    status = opened.status();
    member->refused = absl::IsDataLoss(status);
    *defects += member->refused;
  }
  warn(member, status);
  return nullptr;
}

void BundleSet::warn(Member* member, const absl::Status& status) {
  bool first = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    first = !std::exchange(member->warned, true);
  }
  logger_.log(first ? LogLevel::kWarning : LogLevel::kDebug, absl::StrCat("cache: ", status.message()));
}

}  // namespace lathe
