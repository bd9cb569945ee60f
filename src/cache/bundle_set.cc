#include "cache/bundle_set.h"

#include "absl/strings/str_cat.h"

namespace lathe {

BundleSet::BundleSet(const std::vector<std::string>& paths, Logger logger) : logger_(std::move(logger)) {
  for (const std::string& path : paths) members_.emplace_back(path);
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
  return absl::NotFoundError("no bundle has the key");
}

absl::StatusOr<Artifact> BundleSet::read(const Key& key, uint64_t* defects) {
  return first(&Bundle::read, key, defects);
}

absl::StatusOr<PlanRecord> BundleSet::read_record(const Key& key, uint64_t* defects) {
  return first(&Bundle::read_record, key, defects);
}

const Bundle* BundleSet::open(Member* member, uint64_t* defects) {
  const Bundle* held = member->bundle.load(std::memory_order_acquire);
  if (held != nullptr || member->refused.load(std::memory_order_relaxed)) return held;
  absl::StatusOr<std::unique_ptr<Bundle>> opened = Bundle::open(member->path);
  if (opened.ok()) {
    // If two threads race to open it, the first wins.
    if (!member->bundle.compare_exchange_strong(held, opened->get(), std::memory_order_acq_rel)) return held;
    return opened->release();
  }
  if (absl::IsDataLoss(opened.status())) *defects += !member->refused.exchange(true);
  warn(member, opened.status());
  return nullptr;
}

void BundleSet::warn(Member* member, const absl::Status& status) {
  logger_.log(member->warned.exchange(true) ? LogLevel::kDebug : LogLevel::kWarning,
              absl::StrCat("cache: ", status.message()));
}

}  // namespace lathe
