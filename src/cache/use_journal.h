// When each entry was last used, and how often: a text file to which a line is appended for each entry or
// record that a process reads or writes.
//
//   <fingerprint> <hits> <made>\n
//
// The last line of a fingerprint says how recent it is: position orders uses, no time does, so a clock that
// jumps by years changes nothing. Now and then the lines of a fingerprint become one, its counts summed, and
// those of entries that are gone become one of the fingerprint 0. Lines that are torn or make no sense are
// passed over; lines that are lost (a crash, an append beside a rewriting) cost order and counts, never an
// entry. Records are ordered among the entries and counted nowhere: both numbers of their lines are 0.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/strings/string_view.h"

namespace lathe {

struct Use {
  uint64_t hits = 0, made = 0;  // times read from disk by a process, times published
  uint64_t order = 0;           // ascending from least to most recently used; 0: never seen
};

struct UseTable {
  std::unordered_map<std::string, Use> entries;  // and records, by fingerprint
  Use gone;                                      // of entries that were removed, together

  Use of(absl::string_view fingerprint) const;
};

enum class UseKind { kHit, kMade, kUncounted };  // the last: of a record

// Best effort: where nothing can be written nothing is.
void note_use(int directory, absl::string_view fingerprint, UseKind kind);
UseTable read_uses(int directory);

}  // namespace lathe
