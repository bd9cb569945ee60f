#include "cli/command_line.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/session.h"

namespace lathe::cli {
namespace {

std::string first_word(const std::string& name) { return name.substr(0, name.find(' ')); }

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names,
                         const std::string& dashes = "") {
  const std::string name = nearest(word, names);
  return name.empty() ? "" : absl::StrCat("; did you mean '", dashes, name, "'?");
}

// Removes the words of the verb from the front of `words`.
absl::StatusOr<const Verb*> find_verb(std::vector<std::string>* words, const std::vector<Verb>& verbs) {
  std::vector<std::string> firsts, seconds;
  for (const Verb& v : verbs) {
    const std::string name = v.name, first = first_word(name);
    firsts.push_back(first);
    if (words->front() != first) continue;
    if (name == first) {
      words->erase(words->begin());
      return &v;
    }
    seconds.push_back(name.substr(first.size() + 1));
    if (words->size() > 1 && (*words)[1] == seconds.back()) {
      words->erase(words->begin(), words->begin() + 2);
      return &v;
    }
  }
  const std::string first = words->front();
  if (seconds.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown verb '", first, "'", did_you_mean(first, firsts)));
  }
  const std::string wanted = absl::StrJoin(seconds, "|");
  if (words->size() == 1) return absl::InvalidArgumentError(absl::StrCat("'", first, "' needs ", wanted));
  return absl::InvalidArgumentError(absl::StrCat("'", first, "' needs ", wanted, ", not '", (*words)[1], "'",
                                                 did_you_mean((*words)[1], seconds)));
}

const Flag* find_flag(const std::string& name, const Verb& verb, std::vector<std::string>* names) {
  for (const std::vector<Flag>* flags : {&verb.flags, &common_flags()}) {
    for (const Flag& f : *flags) {
      if (name == f.name) return &f;
      names->push_back(f.name);
    }
  }
  return nullptr;
}

std::string verb_line(const Verb& v) {
  return absl::StrFormat("  %-26s  %s\n", absl::StrCat("lathe ", v.name, " ", v.words), v.summary);
}

std::string flag_lines(const std::vector<Flag>& flags) {
  std::string out;
  for (const Flag& f : flags) {
    const std::string left = f.value ? absl::StrCat("--", f.name, " ", f.value) : absl::StrCat("--", f.name);
    absl::StrAppend(&out, left.size() > 26 ? absl::StrFormat("  %s\n  %-26s  %s\n", left, "", f.help)
                                           : absl::StrFormat("  %-26s  %s\n", left, f.help));
  }
  return out;
}

}  // namespace

std::string Arguments::text(const std::string& name, const std::string& fallback) const {
  auto it = flags.find(name);
  return it == flags.end() ? fallback : it->second;
}

absl::StatusOr<int64_t> Arguments::integer(const std::string& name, int64_t fallback, int64_t lowest,
                                           int64_t highest) const {
  auto it = flags.find(name);
  if (it == flags.end()) return fallback;
  int64_t value = 0;
  if (!absl::SimpleAtoi(it->second, &value) || value < lowest || value > highest) {
    return absl::InvalidArgumentError(absl::StrFormat("--%s takes a whole number from %d to %d, not '%s'",
                                                      name, lowest, highest, it->second));
  }
  return value;
}

absl::StatusOr<int64_t> Arguments::seed() const {
  Arguments with_default = *this;
  const char* of_tests = std::getenv("LATHE_TEST_SEED");
  if (of_tests != nullptr && *of_tests != '\0') with_default.flags.emplace("seed", of_tests);
  return with_default.integer("seed", static_cast<int64_t>(std::random_device()()), 0, INT64_MAX);
}

Flag seed_flag() {
  return {"seed", "S", "seed of the random inputs (default: LATHE_TEST_SEED, or a new one; it is printed)"};
}

absl::StatusOr<uint64_t> Arguments::bytes(const std::string& name, uint64_t fallback) const {
  auto it = flags.find(name);
  if (it == flags.end()) return fallback;
  if (it->second == "unlimited") return std::numeric_limits<uint64_t>::max();
  const std::string units = "KMGT";
  std::string digits = it->second;
  const size_t unit = digits.empty() ? std::string::npos : units.find(digits.back());
  const int shift = unit == std::string::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  if (shift != 0) digits.pop_back();
  uint64_t value = 0;
  if (digits.find_first_not_of("0123456789") != std::string::npos || !absl::SimpleAtoi(digits, &value) ||
      value > std::numeric_limits<uint64_t>::max() >> shift) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, " takes a number of bytes (4096, 500M, 4G) or unlimited, not '", it->second, "'"));
  }
  return value << shift;
}

absl::StatusOr<std::string> Arguments::choice(const std::string& name,
                                              const std::vector<std::string>& names) const {
  const std::string value = text(name, names.front());
  if (std::find(names.begin(), names.end(), value) != names.end()) return value;
  return absl::InvalidArgumentError(absl::StrCat("--", name, " takes ", absl::StrJoin(names, "|"), ", not '",
                                                 value, "'", did_you_mean(value, names)));
}

absl::Status Arguments::not_both(const std::string& one, const std::string& other) const {
  if (!has(one) || !has(other)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", one, " and --", other, " cannot be used together: give one of them"));
}

const std::vector<Flag>& common_flags() {
  static const std::string external = absl::StrCat(
      "use of external libraries for matmul (", absl::StrJoin(external_libraries(), ", "),
      "): allow if predicted faster, prefer if possible, require or fail; prefer:onednn names one, "
      "onednn alone requires it (default: $LATHE_EXTERNAL or off)");
  static const std::vector<Flag> flags = {
      {"cache-dir", "DIR", "cache directory; '' for none (default: $LATHE_CACHE_DIR or ~/.cache/lathe)"},
      {"cache-bytes", "SIZE",
       "size limit of the cache directory: 500M, 4G, unlimited (default: $LATHE_CACHE_BYTES or 4G)"},
      {"bundles", "A:B",
       "bundles to search after the cache directory; '' for none (default: $LATHE_BUNDLES)"},
      {"remote", "URL",
       "Redis store that machines share: redis://[[user]:password@]host[:port][/database][/prefix]; '' for "
       "none (default: $LATHE_REMOTE)"},
      {"tuning", "FILE",
       "tuning records from 'lathe tune --output', used before those in the cache; '' for none (default: "
       "$LATHE_TUNING)"},
      {"calibration", "FILE",
       "measured facts from 'lathe calibrate --output'; '' for none (default: $LATHE_CALIBRATION, or "
       "calibration.json in the cache directory)"},
      {"compiler", "inprocess|process",
       "compile in this process or in separate ones (default: $LATHE_COMPILER or inprocess)"},
      {"external", "off|allow|prefer|require|LIBRARY", external.c_str()},
      {"workers", "N", "CPU threads that a call may use, 1 to 1024 (default: one per core)"},
      {"help", nullptr, "print this help"},
  };
  return flags;
}

absl::StatusOr<Arguments> parse(const std::vector<std::string>& line, const std::vector<Verb>& verbs,
                                const Verb** verb) {
  *verb = nullptr;
  Arguments arguments;
  // The verb is the first one or two words that are not flags. Whether a flag takes a value is known only after the
  // verb, so only common flags may come before it.
  std::vector<std::string> rest;
  size_t at = 0;
  for (; at < line.size() && (line[at].rfind("--", 0) == 0 || line[at] == "-h"); ++at) {
    rest.push_back(line[at]);
    const std::string name = line[at].substr(2, line[at].find('=') - 2);
    const bool has_equals = line[at].find('=') != std::string::npos;
    for (const Flag& f : common_flags()) {
      if (name == f.name && f.value && !has_equals && at + 1 < line.size()) rest.push_back(line[++at]);
    }
  }
  std::vector<std::string> tail(line.begin() + at, line.end());
  if (tail.empty()) return absl::InvalidArgumentError("no verb given");
  absl::StatusOr<const Verb*> found = find_verb(&tail, verbs);
  if (!found.ok()) return found.status();
  *verb = *found;
  rest.insert(rest.end(), tail.begin(), tail.end());

  for (size_t i = 0; i < rest.size(); ++i) {
    const std::string word = rest[i] == "-h" ? "--help" : rest[i];
    if (word.rfind("--", 0) != 0) {
      arguments.words.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::vector<std::string> names;
    const Flag* flag = find_flag(name, **verb, &names);
    if (!flag) {
      return absl::InvalidArgumentError(
          absl::StrCat("'lathe ", (*verb)->name, "' has no flag --", name, did_you_mean(name, names, "--")));
    }
    std::string value;
    if (!flag->value) {
      if (equals != std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat("--", name, " takes no value"));
      }
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < rest.size()) {
      value = rest[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " needs a value: --", name, " ", flag->value));
    }
    if (!arguments.flags.emplace(name, value).second && name != "help")
      return absl::InvalidArgumentError(absl::StrCat("--", name, " is given twice"));
  }
  const int given = static_cast<int>(arguments.words.size());
  const int least = std::abs((*verb)->words_wanted);
  if (!arguments.has("help") && (given < least || (given > least && (*verb)->words_wanted >= 0))) {
    const std::string wanted = least == 0 ? "takes no words" : absl::StrCat("needs ", (*verb)->words);
    return absl::InvalidArgumentError(
        absl::StrCat("'lathe ", (*verb)->name, "' ", wanted,
                     given > least ? absl::StrCat(", '", arguments.words.back(), "' is one too many") : ""));
  }
  return arguments;
}

std::string help_of(const Verb& verb) {
  std::string out = absl::StrCat("lathe ", verb.name, verb.words_wanted ? " " : "", verb.words,
                                 " [flags]\n  ", verb.summary, "\n");
  if (!verb.flags.empty()) absl::StrAppend(&out, "\nFlags\n", flag_lines(verb.flags));
  absl::StrAppend(&out, "\nFlags of every verb\n", flag_lines(common_flags()));
  if (!verb.examples.empty()) absl::StrAppend(&out, "\nExamples\n");
  for (const std::string& example : verb.examples) absl::StrAppend(&out, "  ", example, "\n");
  return out;
}

std::string help_of(const std::vector<Verb>& verbs) {
  std::string out = "lathe: compile, cache and run kernels for the exact shapes that you use.\n\n";
  for (const Verb& v : verbs) absl::StrAppend(&out, verb_line(v));
  absl::StrAppend(&out,
                  "\n'lathe VERB --help' prints the flags of a verb, 'lathe --version' the version.\n"
                  "Exit codes: 0 success, 1 failure, 2 wrong usage.\n");
  return out;
}

std::string help_of_group(const std::vector<std::string>& line, const std::vector<Verb>& verbs) {
  if (std::none_of(line.begin(), line.end(), asks_for_help)) return "";
  const auto word = std::find_if_not(line.begin(), line.end(), asks_for_help);
  if (word == line.end() || std::find_if_not(word + 1, line.end(), asks_for_help) != line.end()) return "";
  std::string lines;
  for (const Verb& v : verbs) {
    if (v.name == *word) return "";  // the word is also a verb itself, whose own help is printed
    if (first_word(v.name) == *word) absl::StrAppend(&lines, verb_line(v));
  }
  if (lines.empty()) return "";
  return absl::StrCat(lines, "\n'lathe ", *word, " WORD --help' prints the flags.\n");
}

bool asks_for_help(const std::string& word) { return word == "-h" || word == "--help"; }

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 2) + 1;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace lathe::cli
