// Records when each entry was last used, and how often. The journal is a text file. A process appends a line
// for each entry or record that it reads or writes:
//
//   <fingerprint> <hits> <made>\n
//
// The last line of a fingerprint says how recent its use is. The position orders uses, not a time, so a wrong
// clock does no harm. From time to time the journal is rewritten: the lines of a fingerprint become one line
// with the sums, and those of removed entries become one line with fingerprint 0. Torn or invalid lines are
// ignored. A lost line (a crash, an append during a rewrite) costs order and counts, never an entry. Records
// take part in the order but are not counted: both numbers of their lines are 0.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace lathe {

struct Use {
  uint64_t hits = 0, made = 0;  // how often processes read it from disk and wrote it
  uint64_t order = 0;           // ascending from least to most recently used; 0: never seen
};

struct UseTable {
  std::unordered_map<std::string, Use> entries;  // of entries and records, by fingerprint
  Use gone;                                      // sum of the removed entries

  Use of(absl::string_view fingerprint) const;
};

enum class UseKind { kHit, kMade, kUncounted };  // kUncounted: a record

// Best effort: if nothing can be written, the use is not recorded.
void note_use(int directory, absl::string_view fingerprint, UseKind kind);
UseTable read_uses(int directory);

}  // namespace lathe
