#include "cache/remote_records.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

constexpr absl::string_view kListName = "tuned1";
// As many records as a tuning file may hold. The list is rewritten when it has as many outdated pairs again.
constexpr size_t kMostListed = 100000, kPairBytes = 16, kMostListBytes = 4 * kMostListed * kPairBytes;

uint64_t digest64(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void append_pair(std::string* text, uint64_t key, uint64_t digest) {
  char pair[kPairBytes];
  std::memcpy(pair, &key, sizeof(key));
  std::memcpy(pair + sizeof(key), &digest, sizeof(digest));
  text->append(pair, sizeof(pair));
}

Deadline::duration seconds(double count) {
  return std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(count));
}

}  // namespace

// Returns the list's size in bytes. A partial pair at the end is ignored.
absl::StatusOr<size_t> RemoteRecords::read_list(List* list) {
  const absl::StatusOr<std::string> text = store_->get_text(kListName, kMostListBytes);
  list->good_until =
      Clock::now() +
      seconds(text.ok() || absl::IsNotFound(text.status()) ? kListSeconds : RemoteStore::kPauseSeconds);
  if (absl::IsNotFound(text.status())) list->digest_of.clear();
  LATHE_RETURN_IF_ERROR(text.status());
  std::unordered_map<uint64_t, uint64_t> digest_of;
  for (size_t at = 0; at + kPairBytes <= text->size(); at += kPairBytes) {
    uint64_t key = 0, digest = 0;
    std::memcpy(&key, text->data() + at, sizeof(key));
    std::memcpy(&digest, text->data() + at + sizeof(key), sizeof(digest));
    digest_of[key] = digest;
  }
  list->digest_of = std::move(digest_of);
  return text->size();
}

bool RemoteRecords::may_have_another(RecordKind kind, const Key& key, absl::string_view held) {
  // Plan records are not listed, because they are only asked for where the alternative is to compile.
  if (kind == RecordKind::kPlan) return held.empty();
  List& list = list_.get();
  const std::unique_lock<std::timed_mutex> lock(list.mutex, seconds(RemoteStore::kQueueSeconds));
  if (!lock.owns_lock()) return false;
  if (Clock::now() >= list.good_until) (void)read_list(&list);  // if it fails, the old list stays in use
  const auto found = list.digest_of.find(digest64(key.text));
  return found != list.digest_of.end() && (held.empty() || found->second != digest64(held));
}

absl::StatusOr<PlanRecord> RemoteRecords::get(const Key& key) {
  LATHE_ASSIGN_OR_RETURN(const std::string payload, store_->get(key, EntryKind::kRecord));
  absl::StatusOr<PlanRecord> record = record_of(key, payload);
  if (!record.ok()) return absl::DataLossError(record.status().message());
  return record;
}

void RemoteRecords::put(const PlanRecord& record) {
  const Key key = key_of(record);
  const std::string payload = serialize(record);
  if (!store_->put(key, payload, EntryKind::kRecord).ok() || record.kind == RecordKind::kPlan) return;
  put_on_list(digest64(key.text), digest64(payload));
}

// If another process adds a pair between the read and a rewrite, that pair is lost, and its record stays
// hidden until it is written again.
void RemoteRecords::put_on_list(uint64_t key, uint64_t digest) {
  List& list = list_.get();
  const std::unique_lock<std::timed_mutex> lock(list.mutex, seconds(RemoteStore::kQueueSeconds));
  if (!lock.owns_lock()) return;
  const absl::StatusOr<size_t> bytes = read_list(&list);
  if (!bytes.ok() && !absl::IsNotFound(bytes.status())) return;
  const auto found = list.digest_of.find(key);
  if (found != list.digest_of.end() && found->second == digest) return;
  if (found == list.digest_of.end() && list.digest_of.size() >= kMostListed) {
    logger_.log(LogLevel::kWarning,
                absl::StrCat("cache: the remote store lists ", kMostListed,
                             " tuning records, which is the limit; new ones are not listed"));
    return;
  }
  list.digest_of[key] = digest;
  std::string text;
  if (!bytes.ok() || (*bytes % kPairBytes == 0 && *bytes / kPairBytes < 2 * list.digest_of.size() + 64)) {
    append_pair(&text, key, digest);
    (void)store_->append_text(kListName, text);
    return;
  }
  for (const auto& [listed, its] : list.digest_of) append_pair(&text, listed, its);
  (void)store_->put_text(kListName, text);
}

}  // namespace lathe
