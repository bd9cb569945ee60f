// Plain parsing of `lathe VERB [WORDS] [--flag VALUE]`, from a table that also writes the help.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lathe::cli {

struct Flag {
  const char* name;   // "dtype", without dashes
  const char* value;  // what the help calls its value, "f32|f16|bf16"; nullptr: a switch
  const char* help;
};

// What a user wrote. Getters name the flag and the expected form in their errors, all kInvalidArgument.
class Arguments {
 public:
  std::vector<std::string> words;
  std::map<std::string, std::string> flags;  // given ones; a switch maps to ""

  bool has(const std::string& name) const { return flags.count(name) != 0; }
  std::string text(const std::string& name, const std::string& fallback) const;
  absl::StatusOr<int64_t> integer(const std::string& name, int64_t fallback, int64_t lowest,
                                  int64_t highest) const;
  // A number of bytes, as "4096", "500M" or "unlimited" (UINT64_MAX).
  absl::StatusOr<uint64_t> bytes(const std::string& name, uint64_t fallback) const;
  // One of `names`; the first when the flag is absent.
  absl::StatusOr<std::string> choice(const std::string& name, const std::vector<std::string>& names) const;
  // Of two flags that contradict each other.
  absl::Status not_both(const std::string& one, const std::string& other) const;
};

struct Verb {
  const char* name;     // "run matmul": one word or two
  const char* words;    // what follows, "MxNxK"
  int words_wanted;     // how many words must follow; -N: N or more
  const char* summary;  // one line
  std::vector<Flag> flags;
  std::vector<const char*> examples;
  // kInvalidArgument: the command line is wrong (exit 2); any other error: it failed (exit 1).
  absl::Status (*run)(const Arguments& arguments);
};

// Flags that every verb takes.
const std::vector<Flag>& common_flags();

// Finds the verb and reads its words and flags, which may stand in any order. Unknown verbs and flags name
// the nearest known ones. `*verb` is set as soon as it is known, so that an error can point to its help.
absl::StatusOr<Arguments> parse(const std::vector<std::string>& line, const std::vector<Verb>& verbs,
                                const Verb** verb);

std::string help_of(const Verb& verb);
std::string help_of(const std::vector<Verb>& verbs);
// For a line that asks for help with the first word of two ("run --help"): the verbs that begin with it, one
// per line.
// "" for any other line.
std::string help_of_group(const std::vector<std::string>& line, const std::vector<Verb>& verbs);
// "-h" and "--help".
bool asks_for_help(const std::string& word);

// The nearest name by edit distance, "" when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace lathe::cli
