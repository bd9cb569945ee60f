#include "cache/pack.h"

#include <sys/stat.h>

#include <cerrno>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/bundle.h"
#include "cache/disk_store.h"
#include "cache/replace_file.h"

namespace lathe {
namespace {

class Packer {
 public:
  explicit Packer(KeepKey keep) : keep_(keep) {}

  absl::Status add(const std::string& source) {
    struct stat s;
    if (stat(source.c_str(), &s) != 0)
      return absl::InvalidArgumentError(errno_status(errno, source).message());
    return S_ISDIR(s.st_mode) ? add_store(source) : add_bundle(source);
  }

  absl::StatusOr<PackReport> write(const std::string& path) &&;

 private:
  absl::Status add_store(const std::string& directory) {
    const DiskStore store(directory, kNoCap, Logger());
    if (const absl::Status safe = store.check(); !safe.ok())
      return absl::InvalidArgumentError(safe.message());
    LATHE_ASSIGN_OR_RETURN(const CacheListing listing, store.list());
    for (const CacheDefect& defect : listing.defects)
      if (defect.unread)
        return absl::UnavailableError(absl::StrCat(directory, "/", defect.file, ": ", defect.cause));
    report_.defects += listing.defects.size();
    for (const CacheEntryInfo& entry : listing.entries) {
      if (!takes(entry.key_text)) continue;
      const absl::StatusOr<DiskEntry> read = store.read(key_from_text(entry.key_text));
      if (!read.ok() && !absl::IsDataLoss(read.status()) && !absl::IsNotFound(read.status()))
        return absl::UnavailableError(
            absl::StrCat(directory, "/", entry.file, ": ", read.status().message()));
      if (read.ok())
        take(entry.key_text, std::string(read->payload()));
      else
        ++report_.defects;  // it was damaged or removed after it was listed
    }
    for (const CacheRecordInfo& r : listing.records) take_record(r.key_text, serialize(r.record));
    return absl::OkStatus();
  }

  absl::Status add_bundle(const std::string& path) {
    absl::StatusOr<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
    if (!bundle.ok()) return absl::InvalidArgumentError(bundle.status().message());
    for (size_t i = 0; i < (*bundle)->size(); ++i) {
      const std::string key((*bundle)->key_text(i));
      absl::StatusOr<std::string> payload = (*bundle)->payload(i);
      if (payload.ok() && is_record(*payload)) {
        const absl::Status status = record_of(key_from_text(key), *payload).status();
        if (status.ok())
          take_record(key, *std::move(payload));
        else
          report_.defects += !absl::IsUnimplemented(status);  // a record of another version is skipped
        continue;
      }
      if (!takes(key)) continue;
      if (payload.ok() && parse_artifact(*payload).ok())
        take(key, *std::move(payload));
      else
        ++report_.defects;
    }
    return absl::OkStatus();
  }

  bool takes(const std::string& key) {
    if (!keep_(key)) return false;
    const bool fresh = artifacts_.count(key) == 0;
    report_.duplicates += !fresh;
    return fresh;
  }
  void take(const std::string& key, std::string payload) {
    ++report_.entries;
    report_.unpacked_bytes += payload.size();
    artifacts_.emplace(key, std::move(payload));
  }

  // If two sources have a record of the same key, the first is kept, as for artifacts.
  void take_record(const std::string& key, std::string payload) {
    if (keep_(key) && artifacts_.emplace(key, std::move(payload)).second) ++report_.records;
  }

  const KeepKey keep_;
  PackReport report_;
  std::map<std::string, std::string>
      artifacts_;  // sorted by key, so that the file does not depend on the order of sources
};

absl::StatusOr<PackReport> Packer::write(const std::string& path) && {
  std::set<absl::string_view> payloads;
  for (const auto& [key, payload] : artifacts_)
    if (!is_record(payload)) payloads.insert(payload);
  report_.payloads = payloads.size();
  const std::string bytes = make_bundle("{\"kind\":\"kernels\"}", {artifacts_.begin(), artifacts_.end()});
  report_.bytes = bytes.size();
  const absl::Status written = replace_file(path, bytes, 0644, Durability::kSynced);
  if (!written.ok()) return absl::UnavailableError(absl::StrCat("bundle ", path, ": ", written.message()));
  return report_;
}

// A record that the directory or one of the cache's bundles already has is kept.
absl::Status import_record(const Key& key, absl::string_view payload, ArtifactCache& cache,
                           PackReport* report) {
  const absl::StatusOr<PlanRecord> record = record_of(key, payload);
  if (!record.ok()) {
    report->defects += !absl::IsUnimplemented(record.status());  // a record of another version is skipped
    return absl::OkStatus();
  }
  LATHE_ASSIGN_OR_RETURN(const bool fresh, cache.store_record(*record));
  report->records += fresh;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PackReport> write_bundle(const std::string& path, const std::vector<std::string>& sources,
                                        KeepKey keep) {
  Packer packer(keep);
  for (const std::string& source : sources) LATHE_RETURN_IF_ERROR(packer.add(source));
  return std::move(packer).write(path);
}

absl::StatusOr<PackReport> import_bundle(const std::string& path, ArtifactCache& cache) {
  const absl::StatusOr<std::unique_ptr<Bundle>> opened = Bundle::open(path);
  if (!opened.ok()) return absl::InvalidArgumentError(opened.status().message());
  const Bundle* bundle = opened->get();
  PackReport report;
  std::set<uint64_t> places;
  for (size_t i = 0; i < bundle->size(); ++i) {
    absl::StatusOr<std::string> payload = bundle->payload(i);
    if (payload.ok() && is_record(*payload)) {
      LATHE_RETURN_IF_ERROR(
          import_record(key_from_text(std::string(bundle->key_text(i))), *payload, cache, &report));
      continue;
    }
    absl::StatusOr<Artifact> artifact = payload.ok() ? parse_artifact(*payload) : payload.status();
    if (!artifact.ok()) {
      ++report.defects;
      continue;
    }
    const Key key = key_from_text(std::string(bundle->key_text(i)));
    LATHE_ASSIGN_OR_RETURN(const bool fresh, cache.store(key, *artifact));
    if (!fresh) {
      ++report.duplicates;
      continue;
    }
    ++report.entries;
    places.insert(bundle->payload_at(i));
    report.unpacked_bytes += payload->size();
  }
  report.payloads = places.size();
  return report;
}

}  // namespace lathe
