// The files of a store's directory: their names, their locks, and how they are published.
//
//   <fingerprint>.lathe      an entry
//   <fingerprint>.record     a record (core/plan_record.h), in the format of an entry
//   <fingerprint>.lock       locked (flock) by the process that compiles the key now
//   <fingerprint>.idle       locked by the process that compiles the key at idle priority (Urgency)
//   .tmp-<fingerprint>-...   locked (flock) by the process that writes it, until it is renamed
//   .uses                    the journal of uses (use_journal.h)
//
// Files with other names do not belong to the store and are never touched.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/cache.h"

namespace lathe {

constexpr char kUsesName[] = ".uses";

std::string entry_name(absl::string_view fingerprint);
std::string lock_name(absl::string_view fingerprint, Urgency urgency = Urgency::kNow);
bool is_entry(absl::string_view name);
std::string record_name(absl::string_view fingerprint);
bool is_record_file(absl::string_view name);
// Whether it is a temporary or a lock file, which is useless once its process has ended.
bool is_held(absl::string_view name);
// Whether it is 32 lower-case hexadecimal digits.
bool is_fingerprint(absl::string_view text);
// The fingerprint in the name of an entry or a record.
absl::string_view fingerprint_of(absl::string_view entry);

// Returns all names in an open directory, sorted, or an error if the directory cannot be read.
absl::StatusOr<std::vector<std::string>> names_in(int directory);

enum class Durability {
  // The file is synced before it is renamed, and its directory after that.
  kSynced,
  // The file is synced before it is renamed. A crash may lose the file. For files that can be made again,
  // written while callers wait.
  kWhole,
  // Handed to the file system (or the server of a network file system). A crash may lose the contents. For
  // files that describe the current moment.
  kWritten,
};

// Writes a temporary file and renames it to `name`.
absl::Status publish_file(int directory, absl::string_view fingerprint, const std::string& name,
                          absl::string_view bytes, Durability durability);

constexpr size_t kHostSize = 16;  // digits that identify the machine that made a temporary

struct Publishing {
  mode_t mode;
  Durability durability;
};
// Like publish_file. The temporary's name is `prefix`, then the machine (16 hexadecimal digits), the process
// id, a number and random hexadecimal digits, separated by hyphens. kAborted: other machines reclaimed every
// temporary.
absl::Status publish_through(int directory, const std::string& prefix, const std::string& name,
                             absl::string_view bytes, const Publishing& how);

// Whether `name` is still the name of this open file.
bool is_of_name(int directory, const std::string& name, int file);

// Removes a temporary or lock file if its process has ended, that is, if nobody locks the file. For another
// machine's temporary, or on a file system without locks, a missing lock proves nothing: there the file's
// time stamp must differ from now by an hour, in either direction.
bool reclaim(int directory, const std::string& name);

}  // namespace lathe
