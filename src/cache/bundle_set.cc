#include "cache/bundle_set.h"

#include "absl/strings/str_cat.h"

namespace lathe {

BundleSet::BundleSet(const std::vector<std::string>& paths, Logger logger) : logger_(std::move(logger)) {
  for (const std::string& path : paths) {
    members_.emplace_back();
    members_.back().path = path;
  }
}

absl::StatusOr<Artifact> BundleSet::read(const Key& key, uint64_t* defects) {
  for (Member& member : members_) {
    const Bundle* bundle = open(&member, defects);
    if (bundle == nullptr) continue;
    absl::StatusOr<Artifact> artifact = bundle->read(key);
    if (artifact.ok()) return artifact;
    if (absl::IsNotFound(artifact.status())) continue;
    ++*defects;
    warn(&member, artifact.status());
  }
  return absl::NotFoundError("in no bundle");
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
