// The files of a store's directory: their names, who holds them, and how one comes to its name.
//
//   <fingerprint>.lathe      an entry
//   <fingerprint>.record     a record (core/plan_record.h), as an entry is
//   <fingerprint>.lock       held (flock) by the process that compiles the key now,
//   <fingerprint>.idle       by the one that does when the machine has nothing else to do (Urgency)
//   .tmp-<fingerprint>-...   held (flock) by the process that writes it, until it is renamed
//   .uses                    the journal of uses (use_journal.h)
//
// Whatever is named otherwise is not ours and is left alone.
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
// A temporary or a lock: of no use once the process that holds it has ended.
bool is_held(absl::string_view name);
// 32 hex digits.
bool is_fingerprint(absl::string_view text);
// Of an entry's or a record's name.
absl::string_view fingerprint_of(absl::string_view entry);

// The names in an open directory, sorted: all of them, or why they could not be read.
absl::StatusOr<std::vector<std::string>> names_in(int directory);

enum class Durability {
  kSynced,   // on disk before it has its name, and the name before it is said to be written
  kWhole,    // on disk before it has its name, which a crash may cost: of what can be made again, by callers
             // that wait
  kWritten,  // handed to the file system, including the server of a network file system. A crash may lose the
             // contents. For files that describe the current moment
};

// Writes a temporary and renames it to `name`.
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

// Whether the open file is the one of that name.
bool is_of_name(int directory, const std::string& name, int file);

// Removes a temporary or a lock file whose process has ended, which is so if nobody locks the file. Locks
// prove nothing for another machine's temporary or on a file system without locks. There the file's time
// stamp must differ from now by an hour, in either direction.
bool reclaim(int directory, const std::string& name);

}  // namespace lathe
