// A bundle: many artifacts in one read-only file. All numbers are little-endian:
//
//   0   8  magic "LATHEBDL"
//   8   4  schema version
//   12  4  number of index rows
//   16  8  bytes of the index: the rows, `about` and the texts of the keys
//   24  8  bytes of `about`
//   32  8  bytes of the file
//   40  16 XXH3-128 (canonical byte order) of bytes 0..39 and the index
//   56     the rows, ascending by fingerprint:
//            0   16 XXH3-128 of the key's text (canonical byte order)
//            16  8  where the key's text starts in the file
//            24  4  bytes of the key's text
//            28  4  payload codec: 0, none; 1, one zstd frame that contains its content's size
//            32  8  where the payload starts in the file
//            40  8  bytes of the stored payload
//            48  16 XXH3-128 of the stored payload
//          `about` (JSON, for people and for checks of the whole bundle), the texts of the keys, then the
//          payloads (serialized artifacts and records). Keys with the same payload share it.
//
// Opening a bundle reads and checks the index. A look-up reads, checks and decompresses one payload. The
// checksums protect against accidents, not against an attacker: trust a bundle as you trust the library
// beside it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cache/private_directory.h"
#include "core/artifact.h"
#include "core/key.h"
#include "core/plan_record.h"

namespace lathe {

// Returns the bytes of the bundle's file. `artifacts` holds pairs of a key's text and a serialized artifact
// or record (core/plan_record.h), each key once. A payload is compressed if that makes it smaller.
std::string make_bundle(absl::string_view about,
                        const std::vector<std::pair<std::string, std::string>>& artifacts);

// Immutable once open, so thread-safe. The file stays open, so it may be replaced or removed meanwhile.
class Bundle {
 public:
  // kNotFound: the file does not exist. kDataLoss: the file is damaged, and the message says how. Any other
  // error: the file could not be read. Every message names the file.
  static absl::StatusOr<std::unique_ptr<Bundle>> open(const std::string& path);

  const std::string& path() const { return path_; }
  absl::string_view about() const { return about_; }
  size_t size() const { return count_; }
  uint64_t file_bytes() const;
  // The text of the i-th key, ascending by fingerprint.
  absl::string_view key_text(size_t i) const;
  // Position in the file of the i-th payload, the same for all keys that share it.
  uint64_t payload_at(size_t i) const;
  // Bytes of the i-th payload as stored.
  uint64_t stored_bytes(size_t i) const;
  // The i-th serialized artifact or record. kDataLoss: it is damaged.
  absl::StatusOr<std::string> payload(size_t i) const;
  // kNotFound: the bundle does not have the key. kDataLoss: the payload is damaged.
  absl::StatusOr<Artifact> read(const Key& key) const;
  absl::StatusOr<PlanRecord> read_record(const Key& key) const;

 private:
  Bundle(std::string path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status read_index();
  absl::Status check_rows(uint64_t file_bytes) const;
  absl::Status damaged(absl::string_view cause) const;
  // Adds the path to a failed read. kDataLoss if the file ends early; other failures may be temporary.
  absl::Status unread(const absl::Status& read) const;
  // Finds the key's payload and returns `parse` of it.
  template <typename Parse>
  auto read_as(const Key& key, Parse parse) const -> decltype(parse(absl::string_view()));

  const std::string path_;
  FileDescriptor file_;
  std::string head_;  // header and index
  size_t count_ = 0;
  absl::string_view about_;
};

}  // namespace lathe
