#include "cli/classes_file.h"

#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/files.h"
#include "cli/ops.h"
#include "cli/packed_weight.h"
#include "cli/request_flags.h"
#include "cli/request_matmul.h"

namespace lathe::cli {
namespace {

constexpr Flag kMMax = {"m-max", "M", "only with a CSV file: M from 1 to this (default: 8192)"};

struct Weight {
  std::string name;  // "llama3-8b qkv"
  int64_t n = 0, k = 0;
};

// Reads a CSV file: a header with at least the columns n and k, in any order, then one weight per line. Skips blank
// lines, lines that start with #, and weights whose sizes have occurred before.
absl::StatusOr<std::vector<Weight>> read_weights(const std::string& path, const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> columns;
  std::vector<Weight> weights;
  std::set<std::pair<int64_t, int64_t>> seen;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (stripped.empty() || stripped[0] == '#') continue;
    std::vector<std::string> cells = absl::StrSplit(stripped, ',');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (columns.empty()) {
      columns = cells;
      const std::set<std::string> names(columns.begin(), columns.end());
      if (names.count("n") && names.count("k")) continue;
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number,
                                                     ": the first line must name the columns, such as ",
                                                     "model,layer,n,k; this one does not name n and k"));
    }
    Weight w;
    std::vector<std::string> words;
    bool good = cells.size() == columns.size();
    for (size_t i = 0; good && i < cells.size(); ++i) {
      if (columns[i] == "n" || columns[i] == "k") {
        int64_t& size = columns[i] == "n" ? w.n : w.k;
        good = absl::SimpleAtoi(cells[i], &size) && size > 0;
      } else {
        words.push_back(cells[i]);
      }
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": expected ",
                                                     absl::StrJoin(columns, ","), ", not '", stripped, "'"));
    }
    w.name = absl::StrJoin(words, " ");
    if (seen.insert({w.n, w.k}).second) weights.push_back(w);
  }
  if (weights.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": the file has no weights"));
  return weights;
}

bool is_manifest(absl::string_view text) {
  return absl::StartsWith(absl::StripLeadingAsciiWhitespace(text), "{");
}

// Adds every weight of a CSV file. Dtypes, layout and so on come from the flags.
absl::Status add_weights(const Arguments& arguments, const std::string& text, lathe_device* device,
                         lathe_manifest* manifest) {
  absl::StatusOr<std::vector<Weight>> weights = read_weights(arguments.words[0], text);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<reference::MatmulRequest> request = matmul_weight_request(arguments);
  if (!request.ok()) return request.status();
  absl::StatusOr<int64_t> m_max = arguments.integer("m-max", 8192, 1, INT32_MAX);
  if (!m_max.ok()) return m_max.status();
  request->m = 1;
  for (const Weight& w : *weights) {
    request->n = w.n;
    request->k = w.k;
    lathe_tuning tuning;
    lathe_matmul_desc desc = descriptor(*request, &tuning);
    size_t packed_bytes = 0;
    if (request->packed) {
      const absl::Status s = check(describe_packed(device, desc, &desc.b, &packed_bytes));
      if (!s.ok()) return s;
    }
    if (absl::Status s = check(lathe_manifest_add_matmul(manifest, w.name.c_str(), &desc, *m_max)); !s.ok())
      return s;
  }
  return absl::OkStatus();
}

// With a manifest, the flags of a request are refused, because its entries already give these values.
absl::Status refuse_request_flags(const Arguments& arguments) {
  for (const Flag& flag : classes_flags({}))
    if (arguments.has(flag.name))
      return absl::InvalidArgumentError(absl::StrCat("--", flag.name, " applies only to CSV files; '",
                                                     arguments.words[0],
                                                     "' is a manifest, whose entries give this value"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Manifest> read_classes(const Arguments& arguments, const Opened& opened) {
  absl::StatusOr<std::string> text = read_file(arguments.words[0]);
  if (!text.ok()) return text.status();
  // Spreadsheet programs start UTF-8 files with a byte-order mark.
  if (absl::StartsWith(*text, "\xEF\xBB\xBF")) text->erase(0, 3);
  absl::StatusOr<Manifest> manifest = make_manifest();
  if (!manifest.ok()) return manifest.status();
  absl::Status status;
  if (is_manifest(*text)) {
    status = refuse_request_flags(arguments);
    if (status.ok() && lathe_manifest_parse(manifest->get(), text->data(), text->size()) != LATHE_OK)
      status = absl::InvalidArgumentError(absl::StrCat(arguments.words[0], ": ", lathe_last_error()));
  } else {
    status = add_weights(arguments, *text, opened.device.get(), manifest->get());
  }
  if (!status.ok()) return status;
  return manifest;
}

std::vector<Flag> classes_flags(const std::vector<Flag>& more) { return matmul_flags(joined({kMMax}, more)); }

}  // namespace lathe::cli
