#include "cache/bundle.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "cache/file_io.h"

namespace lathe {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "bundles are little-endian, so the host must be too");

constexpr char kMagic[] = "LATHEBDL";
constexpr uint32_t kSchema = 1;
constexpr uint32_t kStored = 0, kZstd = 1;
constexpr int kLevel = 9;
constexpr uint64_t kMaxBytes =
    uint64_t{1} << 28;  // limit of an index or a payload, so that a damaged size cannot exhaust memory

using Digest = XXH128_canonical_t;

struct Header {
  char magic[8];
  uint32_t schema, count;
  uint64_t index_bytes, about_bytes, file_bytes;
  Digest checksum;
};
static_assert(sizeof(Header) == 56 && offsetof(Header, checksum) == 40, "the header has no padding");

struct IndexRow {
  Digest fingerprint;
  uint64_t key_at;
  uint32_t key_bytes, codec;
  uint64_t payload_at, payload_bytes;
  Digest checksum;
};
static_assert(sizeof(IndexRow) == 64, "an index row has no padding");

Digest digest_of(absl::string_view first, absl::string_view second = "") {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, first.data(), first.size());
  XXH3_128bits_update(&state, second.data(), second.size());
  Digest digest;
  XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&state));
  return digest;
}
int compare(const Digest& x, const Digest& y) { return memcmp(x.digest, y.digest, sizeof(x.digest)); }

absl::string_view bytes_of(const Header& header) {
  return absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header));
}
Digest checksum_of(const Header& header, absl::string_view index) {
  return digest_of(bytes_of(header).substr(0, offsetof(Header, checksum)), index);
}
Header header_of(const std::string& head) {
  Header header;
  memcpy(&header, head.data(), sizeof(header));
  return header;
}
IndexRow row_at(const std::string& head, size_t i) {
  IndexRow row;
  memcpy(&row, head.data() + sizeof(Header) + i * sizeof(IndexRow), sizeof(row));
  return row;
}

// Whether [at, at + size) lies in [lo, hi).
bool within(uint64_t at, uint64_t size, uint64_t lo, uint64_t hi) {
  return at >= lo && at <= hi && size <= hi - at;
}

void throw_if_no_memory(size_t zstd_result) {
  if (ZSTD_getErrorCode(zstd_result) == ZSTD_error_memory_allocation) throw std::bad_alloc();
}

// Returns the payload as it is stored, and its codec.
std::pair<std::string, uint32_t> packed(const std::string& payload) {
  std::string frame(ZSTD_compressBound(payload.size()), '\0');
  const size_t size = ZSTD_compress(&frame[0], frame.size(), payload.data(), payload.size(), kLevel);
  throw_if_no_memory(size);
  if (size >= payload.size()) return {payload, kStored};  // an error code is a larger value, too
  frame.resize(size);
  return {std::move(frame), kZstd};
}

absl::StatusOr<std::string> unpacked(std::string stored, uint32_t codec) {
  if (codec == kStored) return stored;
  const unsigned long long size = ZSTD_getFrameContentSize(stored.data(), stored.size());
  if (size > kMaxBytes)
    return absl::DataLossError("its zstd frame has no valid size");  // error codes are larger
  std::string payload(size, '\0');
  const size_t got = ZSTD_decompress(&payload[0], payload.size(), stored.data(), stored.size());
  throw_if_no_memory(got);                                                   // then the bundle is not damaged
  if (got != size) return absl::DataLossError("zstd cannot decompress it");  // an error code is larger
  return payload;
}

}  // namespace

std::string make_bundle(absl::string_view about,
                        const std::vector<std::pair<std::string, std::string>>& artifacts) {
  std::vector<IndexRow> rows;
  std::string texts, payloads;
  std::map<absl::string_view, IndexRow> placed;  // by payload
  for (const auto& [text, payload] : artifacts) {
    const auto [at, fresh] = placed.try_emplace(payload);
    IndexRow& r = at->second;
    if (fresh) {
      const auto [stored, codec] = packed(payload);
      r.codec = codec;
      r.payload_at = payloads.size();
      r.payload_bytes = stored.size();
      r.checksum = digest_of(stored);
      payloads += stored;
    }
    r.fingerprint = digest_of(text);
    r.key_at = texts.size();
    r.key_bytes = static_cast<uint32_t>(text.size());
    rows.push_back(r);
    texts += text;
  }
  std::sort(rows.begin(), rows.end(),
            [](const IndexRow& x, const IndexRow& y) { return compare(x.fingerprint, y.fingerprint) < 0; });
  const uint64_t texts_at = sizeof(Header) + rows.size() * sizeof(IndexRow) + about.size();
  for (IndexRow& r : rows) {
    r.key_at += texts_at;
    r.payload_at += texts_at + texts.size();
  }
  const std::string index = absl::StrCat(
      absl::string_view(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(IndexRow)), about,
      texts);
  Header header = {};
  memcpy(header.magic, kMagic, sizeof(header.magic));
  header.schema = kSchema;
  header.count = static_cast<uint32_t>(rows.size());
  header.index_bytes = index.size();
  header.about_bytes = about.size();
  header.file_bytes = sizeof(header) + index.size() + payloads.size();
  header.checksum = checksum_of(header, index);
  return absl::StrCat(bytes_of(header), index, payloads);
}

absl::Status Bundle::damaged(absl::string_view cause) const {
  return absl::DataLossError(absl::StrCat("bundle ", path_, ": ", cause));
}

absl::Status Bundle::unread(const absl::Status& read) const {
  return absl::Status(read.code(), absl::StrCat("bundle ", path_, ": ", read.message()));
}

absl::StatusOr<std::unique_ptr<Bundle>> Bundle::open(const std::string& path) {
  FileDescriptor file = open_file(AT_FDCWD, path, O_RDONLY);
  if (!file.valid()) return errno_status(errno, absl::StrCat("bundle ", path));
  std::unique_ptr<Bundle> bundle(new Bundle(path, std::move(file)));
  LATHE_RETURN_IF_ERROR(bundle->read_index());
  return bundle;
}

absl::Status Bundle::read_index() {
  struct stat s;
  if (fstat(file_.get(), &s) != 0) return errno_status(errno, absl::StrCat("bundle ", path_));
  if (!S_ISREG(s.st_mode)) return damaged("it is not a regular file");
  head_.resize(sizeof(Header));
  if (const absl::Status read = read_at(file_.get(), 0, &head_); !read.ok()) return unread(read);
  const Header header = header_of(head_);
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) return damaged("wrong magic");
  if (header.schema != kSchema)
    return damaged(absl::StrCat("schema ", header.schema, ", expected ", kSchema));
  const auto file_bytes = static_cast<uint64_t>(s.st_size);
  if (header.file_bytes != file_bytes)
    return damaged(absl::StrCat("it has ", file_bytes, " bytes, but its header says ", header.file_bytes));
  if (header.index_bytes > kMaxBytes || !within(sizeof(Header), header.index_bytes, 0, file_bytes) ||
      header.about_bytes > header.index_bytes ||
      header.count > (header.index_bytes - header.about_bytes) / sizeof(IndexRow))
    return damaged("the sizes in its header are inconsistent");
  std::string index(header.index_bytes, '\0');
  if (const absl::Status read = read_at(file_.get(), sizeof(Header), &index); !read.ok()) return unread(read);
  if (compare(checksum_of(header, index), header.checksum) != 0)
    return damaged("wrong checksum of the index");
  head_ += index;
  count_ = header.count;
  about_ = absl::string_view(head_).substr(sizeof(Header) + count_ * sizeof(IndexRow), header.about_bytes);
  return check_rows(file_bytes);
}

absl::Status Bundle::check_rows(uint64_t file_bytes) const {
  const uint64_t texts_at = sizeof(Header) + count_ * sizeof(IndexRow) + about_.size();
  for (size_t i = 0; i < count_; ++i) {
    const IndexRow r = row_at(head_, i);
    if (!within(r.key_at, r.key_bytes, texts_at, head_.size()) ||
        !within(r.payload_at, r.payload_bytes, head_.size(), file_bytes) || r.payload_bytes > kMaxBytes)
      return damaged(absl::StrCat("index row ", i, " points outside the file"));
    if (r.codec > kZstd) return damaged(absl::StrCat("index row ", i, " has the unknown codec ", r.codec));
    if (compare(digest_of(key_text(i)), r.fingerprint) != 0 ||
        (i > 0 && compare(row_at(head_, i - 1).fingerprint, r.fingerprint) >= 0))
      return damaged(absl::StrCat("index row ", i, " is out of order"));
  }
  return absl::OkStatus();
}

absl::string_view Bundle::key_text(size_t i) const {
  const IndexRow r = row_at(head_, i);
  return absl::string_view(head_).substr(r.key_at, r.key_bytes);
}

uint64_t Bundle::file_bytes() const { return header_of(head_).file_bytes; }
uint64_t Bundle::payload_at(size_t i) const { return row_at(head_, i).payload_at; }
uint64_t Bundle::stored_bytes(size_t i) const { return row_at(head_, i).payload_bytes; }

absl::StatusOr<std::string> Bundle::payload(size_t i) const {
  const IndexRow r = row_at(head_, i);
  const auto entry = [&](absl::string_view cause) {
    return damaged(absl::StrCat("entry ", key_from_text(std::string(key_text(i))).fingerprint, ": ", cause));
  };
  std::string stored(r.payload_bytes, '\0');
  if (const absl::Status read = read_at(file_.get(), r.payload_at, &stored); !read.ok())
    return entry(read.message());
  if (compare(digest_of(stored), r.checksum) != 0) return entry("wrong checksum");
  absl::StatusOr<std::string> payload = unpacked(std::move(stored), r.codec);
  if (!payload.ok()) return entry(payload.status().message());
  return payload;
}

template <typename Parse>
auto Bundle::read_as(const Key& key, Parse parse) const -> decltype(parse(absl::string_view())) {
  const Digest wanted = digest_of(key.text);
  size_t lo = 0, hi = count_;
  while (lo < hi) {
    const size_t middle = lo + (hi - lo) / 2;
    if (compare(row_at(head_, middle).fingerprint, wanted) < 0)
      lo = middle + 1;
    else
      hi = middle;
  }
  if (lo == count_ || key_text(lo) != key.text)
    return absl::NotFoundError(absl::StrCat("bundle ", path_, ": it has no entry for key ", key.fingerprint));
  LATHE_ASSIGN_OR_RETURN(const std::string bytes, payload(lo));
  auto parsed = parse(bytes);
  if (!parsed.ok()) return damaged(absl::StrCat("entry ", key.fingerprint, ": ", parsed.status().message()));
  return parsed;
}

absl::StatusOr<Artifact> Bundle::read(const Key& key) const { return read_as(key, parse_artifact); }

absl::StatusOr<PlanRecord> Bundle::read_record(const Key& key) const {
  return read_as(key, [&](absl::string_view bytes) { return record_of(key, bytes); });
}

}  // namespace lathe
