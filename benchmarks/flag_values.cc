#include "flag_values.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace lathe::bench {
namespace {

namespace fs = std::filesystem;

template <typename T>
int64_t checked_integer(const absl::Flag<T>& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t value = 0;
  if (absl::SimpleAtoi(text, &value) && value >= least && value <= most) return value;
  refuse(flag, text, absl::StrCat("not a whole number from ", least, " to ", most));
}

template <typename T>
void check_name(const absl::Flag<T>& flag, const std::string& name, const Strings& allowed) {
  if (std::find(allowed.begin(), allowed.end(), name) == allowed.end())
    refuse(flag, name, absl::StrCat("not one of ", absl::StrJoin(allowed, ", ")));
}

// Refuses "--name=value" if the flag is boolean and the value is not. Abseil would exit with status 1.
void check_boolean(absl::string_view word) {
  if (!absl::ConsumePrefix(&word, "-")) return;
  absl::ConsumePrefix(&word, "-");
  const size_t name_ends = word.find('=');
  if (name_ends == absl::string_view::npos) return;
  const absl::string_view name = word.substr(0, name_ends), value = word.substr(name_ends + 1);
  absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
  std::string error;
  if (flag != nullptr && flag->IsOfType<bool>() && !flag->ParseFrom(value, &error))
    refuse(name, value, "neither true nor false");
}

}  // namespace

void parse_flags(int argc, char** argv) {
  std::for_each(argv + 1, argv + argc, check_boolean);
  const std::vector<char*> words = absl::ParseCommandLine(argc, argv);
  if (words.size() == 1) return;
  std::fprintf(stderr, "'%s' is neither a flag nor the value of one; --help lists the flags\n", words[1]);
  std::exit(kBadFlag);
}

void refuse(absl::string_view flag, absl::string_view value, absl::string_view what) {
  std::fprintf(stderr, "%s\n", absl::StrCat("--", flag, ": '", value, "' is ", what).c_str());
  std::exit(kBadFlag);
}

int64_t integer_of(const TextFlag& flag, int64_t least, int64_t most) {
  return checked_integer(flag, absl::GetFlag(flag), least, most);
}

int count_of(const TextFlag& flag, int most) { return static_cast<int>(integer_of(flag, 1, most)); }

double number_of(const TextFlag& flag, double least, double most) {
  const std::string text = absl::GetFlag(flag);
  double value = 0;
  if (absl::SimpleAtod(text, &value) && value >= least && value <= most) return value;
  refuse(flag, text, absl::StrCat("not a number from ", least, " to ", most));
}

uint64_t seed_of(const TextFlag& flag) {
  const int64_t seed = integer_of(flag, 0, std::numeric_limits<int64_t>::max());
  return seed == 0 ? std::random_device{}() : static_cast<uint64_t>(seed);
}

std::string name_of(const TextFlag& flag, const Strings& allowed) {
  std::string name = absl::GetFlag(flag);
  check_name(flag, name, allowed);
  return name;
}

std::vector<int64_t> counts_of(const ListFlag& flag, int64_t most, Empty empty) {
  const Strings texts = absl::GetFlag(flag);
  std::vector<int64_t> values;
  for (const std::string& text : texts) values.push_back(checked_integer(flag, text, 1, most));
  if (values.empty() && empty == Empty::kRefused) checked_integer(flag, "", 1, most);
  return values;
}

Strings names_of(const ListFlag& flag, const Strings& allowed) {
  Strings names = absl::GetFlag(flag);
  for (const std::string& name : names) check_name(flag, name, allowed);
  if (names.empty()) check_name(flag, "", allowed);
  return names;
}

std::string directory_of(const TextFlag& flag) {
  std::string path = absl::GetFlag(flag);
  if (path.empty()) return path;
  std::string probe = path + "/.probe-XXXXXX";
  const int file = mkstemp(probe.data());
  if (file < 0) refuse(flag, path, "not a writable directory");
  close(file);
  unlink(probe.c_str());
  return path;
}

std::string output_file_of(const TextFlag& flag) {
  std::string path = absl::GetFlag(flag);
  if (path.empty()) return path;
  std::error_code error;
  const bool was_there = fs::exists(path, error);
  if (!std::ofstream(path, std::ios::app)) refuse(flag, path, "not a writable file");
  if (!was_there) fs::remove(path, error);
  return path;
}

}  // namespace lathe::bench
