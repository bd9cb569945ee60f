// The values of a benchmark's flags, checked before anything is measured: a bad one ends the program with
// exit status 2 and a line on standard error that names the flag, the value and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/string_view.h"

namespace lathe::bench {

constexpr int kBadFlag = 2;  // the exit status

using Strings = std::vector<std::string>;
// Numbers too are flags of text: where one of its own types is refused, Abseil exits with 1, a failed
// measurement's status, and does not say what is allowed.
using TextFlag = absl::Flag<std::string>;
using ListFlag = absl::Flag<Strings>;

// Parses argv, and refuses words that are no flag's and values of boolean flags that are none.
void parse_flags(int argc, char** argv);

// "--flag: 'value' is `what`".
[[noreturn]] void refuse(absl::string_view flag, absl::string_view value, absl::string_view what);
template <typename T>
[[noreturn]] void refuse(const absl::Flag<T>& flag, absl::string_view value, absl::string_view what) {
  refuse(absl::GetFlagReflectionHandle(flag).Name(), value, what);
}

// All bounds are among what is allowed.
int64_t integer_of(const TextFlag& flag, int64_t least, int64_t most);
int count_of(const TextFlag& flag, int most);  // from 1
double number_of(const TextFlag& flag, double least, double most);
uint64_t seed_of(const TextFlag& flag);  // of 0 a fresh one
std::string name_of(const TextFlag& flag, const Strings& allowed);

enum class Empty { kRefused, kAllowed };
std::vector<int64_t> counts_of(const ListFlag& flag, int64_t most, Empty empty = Empty::kRefused);  // from 1
Strings names_of(const ListFlag& flag, const Strings& allowed);

// Where files can be made, and a file that can be written; "": none is asked for. Both are tried, and left as
// they were.
std::string directory_of(const TextFlag& flag);
std::string output_file_of(const TextFlag& flag);

}  // namespace lathe::bench
