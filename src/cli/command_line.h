// Parses `lathe VERB [WORDS] [--flag VALUE]` by a table of verbs. The same table gives the help texts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lathe::cli {

struct Flag {
  const char* name;   // without dashes: "dtype"
  const char* value;  // the value as the help shows it: "f32|f16|bf16"; nullptr: a switch without a value
  const char* help;
};

// The words and flags of a command line. If a getter fails, the error is kInvalidArgument; it names the flag and the
// expected form.
class Arguments {
 public:
  std::vector<std::string> words;
  std::map<std::string, std::string> flags;  // the given flags; a switch maps to ""

  bool has(const std::string& name) const { return flags.count(name) != 0; }
  std::string text(const std::string& name, const std::string& fallback) const;
  absl::StatusOr<int64_t> integer(const std::string& name, int64_t fallback, int64_t lowest,
                                  int64_t highest) const;
  // --seed of random inputs; without it LATHE_TEST_SEED, with which the tests repeat a run; else a new one.
  absl::StatusOr<int64_t> seed() const;
  // A number of bytes such as "4096" or "500M"; "unlimited" gives UINT64_MAX.
  absl::StatusOr<uint64_t> bytes(const std::string& name, uint64_t fallback) const;
  // One of `names`; the first one if the flag is absent.
  absl::StatusOr<std::string> choice(const std::string& name, const std::vector<std::string>& names) const;
  // An error if both flags are given.
  absl::Status not_both(const std::string& one, const std::string& other) const;
};

struct Verb {
  std::string name;      // one or two words: "run matmul"
  std::string words;     // the words that follow: "MxNxK"
  int words_wanted = 0;  // the number of words that must follow; -N: N or more
  std::string summary;   // one line
  std::vector<Flag> flags;
  std::vector<std::string> examples;
  // kInvalidArgument: the command line is wrong (exit code 2). Any other error: the verb failed (exit code 1).
  std::function<absl::Status(const Arguments& arguments)> run;
};

// The flag that Arguments::seed() reads.
Flag seed_flag();

// The flags that every verb takes.
const std::vector<Flag>& common_flags();

// Finds the verb and reads its words and flags, in any order. An error about an unknown verb or flag names the nearest
// known one. `*verb` is set as soon as it is known, so that an error can point to its help.
absl::StatusOr<Arguments> parse(const std::vector<std::string>& line, const std::vector<Verb>& verbs,
                                const Verb** verb);

std::string help_of(const Verb& verb);
std::string help_of(const std::vector<Verb>& verbs);
// For "run --help" and the like, where `run` is the first word of several verbs: lists these verbs. "" for any other
// line.
std::string help_of_group(const std::vector<std::string>& line, const std::vector<Verb>& verbs);
// Whether the word is "-h" or "--help".
bool asks_for_help(const std::string& word);

// The nearest name by edit distance; "" if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace lathe::cli
