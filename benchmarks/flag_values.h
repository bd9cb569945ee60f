// Reads and checks the values of a benchmark's flags before anything is measured. A bad value ends the
// program with exit status 2 and one line on standard error: the flag, the value and what is allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/string_view.h"

namespace lathe::bench {

constexpr int kBadFlag = 2;  // the exit status

using Strings = std::vector<std::string>;
// Numbers are text flags too. For a bad value of a number flag Abseil exits with status 1, which means a
// failed measurement here, and does not say what is allowed.
using TextFlag = absl::Flag<std::string>;
using ListFlag = absl::Flag<Strings>;

// Parses argv. Refuses words that belong to no flag and bad values of boolean flags.
void parse_flags(int argc, char** argv);

// Prints "--flag: 'value' is `what`" and exits with kBadFlag.
[[noreturn]] void refuse(absl::string_view flag, absl::string_view value, absl::string_view what);
template <typename T>
[[noreturn]] void refuse(const absl::Flag<T>& flag, absl::string_view value, absl::string_view what) {
  refuse(absl::GetFlagReflectionHandle(flag).Name(), value, what);
}

// Bounds are inclusive.
int64_t integer_of(const TextFlag& flag, int64_t least, int64_t most);
int count_of(const TextFlag& flag, int most);  // from 1
double number_of(const TextFlag& flag, double least, double most);
uint64_t seed_of(const TextFlag& flag);  // 0: a random seed
std::string name_of(const TextFlag& flag, const Strings& allowed);

enum class Empty { kRefused, kAllowed };
std::vector<int64_t> counts_of(const ListFlag& flag, int64_t most, Empty empty = Empty::kRefused);  // from 1
Strings names_of(const ListFlag& flag, const Strings& allowed);

// A directory in which files can be created, and a writable file. "" means that none was given. Both are
// tested and left unchanged.
std::string directory_of(const TextFlag& flag);
std::string output_file_of(const TextFlag& flag);

}  // namespace lathe::bench
