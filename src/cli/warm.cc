#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

struct Weight {
  std::string name;  // "llama3-8b qkv"
  int64_t n = 0, k = 0;
};

// A header that names at least the columns n and k, in any order, then a weight a line. Blank lines and lines
// that start with # are skipped; a weight whose sizes came before is too.
absl::StatusOr<std::vector<Weight>> read_weights(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("cannot read '", path, "'"));
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
                                                     ": the first line names the columns, as ",
                                                     "model,layer,n,k; this one names no n and k"));
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
  if (weights.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": no weights in it"));
  return weights;
}

absl::Status warm(const Arguments& arguments) {
  absl::StatusOr<std::vector<Weight>> weights = read_weights(arguments.words[0]);
  if (!weights.ok()) return weights.status();
  absl::StatusOr<MatmulRequest> request = matmul_request(arguments);
  if (!request.ok()) return request.status();
  absl::StatusOr<int64_t> m_max = arguments.integer("m-max", 8192, 1, INT32_MAX);
  if (!m_max.ok()) return m_max.status();
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();

  lathe_warm_report total = LATHE_WARM_REPORT_INIT;
  for (size_t i = 0; i < weights->size(); ++i) {
    const Weight& w = (*weights)[i];
    request->m = 1;
    request->n = w.n;
    request->k = w.k;
    lathe_tuning tuning;
    lathe_matmul_desc desc = descriptor(*request, &tuning);
    size_t packed_bytes = 0;
    if (absl::Status s = check(describe_packed(device->get(), *request, &desc, &packed_bytes)); !s.ok())
      return s;
    lathe_warm_report report = LATHE_WARM_REPORT_INIT;
    if (absl::Status s = check(lathe_warm_matmul(device->get(), &desc, *m_max, &report)); !s.ok()) return s;
    absl::PrintF("[%d/%d] %-32s N %6d K %6d  %3d classes, %3d compiled, %3d cached, %.0f ms\n", i + 1,
                 weights->size(), w.name, w.n, w.k, report.classes, report.compiled, report.cached,
                 report.milliseconds);
    std::fflush(stdout);
    total.classes += report.classes;
    total.compiled += report.compiled;
    total.cached += report.cached;
    total.milliseconds += report.milliseconds;
  }
  absl::StatusOr<lathe_statistics> s = statistics(context->get());
  if (!s.ok()) return s.status();
  absl::PrintF("%d weights, M 1..%d: %d classes, %d compiled, %d cached, %.1f s; compiler library %s\n",
               weights->size(), *m_max, total.classes, total.compiled, total.cached, total.milliseconds / 1e3,
               s->compiler_loaded ? "loaded" : "never loaded");
  return absl::OkStatus();
}

absl::Status warm_matmul_argmax(const Arguments& arguments) {
  absl::StatusOr<MatmulArgmaxRequest> request = matmul_argmax_request(arguments);
  if (!request.ok()) return request.status();
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<Device> device = open_device(context->get(), arguments);
  if (!device.ok()) return device.status();
  lathe_tuning tuning;
  const lathe_matmul_argmax_desc desc = descriptor(*request, &tuning);
  lathe_warm_report report = LATHE_WARM_REPORT_INIT;
  if (absl::Status s = check(lathe_warm_matmul_argmax(device->get(), &desc, request->m, &report)); !s.ok())
    return s;
  absl::PrintF("N %d K %d, M 1..%d: %d classes, %d compiled, %d cached, %.1f s\n", request->n, request->k,
               request->m, report.classes, report.compiled, report.cached, report.milliseconds / 1e3);
  return absl::OkStatus();
}

}  // namespace

Verb warm_matmul_argmax_verb() {
  return {"warm matmul_argmax",
          "MxNxK",
          1,
          "compile every kernel that matmul_argmax of this weight can ask for with M of 1 to the one given",
          matmul_argmax_flags({facts_flag(), target_flag(), device_flag()}),
          {"lathe warm matmul_argmax 64x128256x4096 --dtype bf16 --facts h200 --cache-dir h200-cache"},
          warm_matmul_argmax};
}

Verb warm_verb() {
  return {"warm",
          "SHAPES.CSV",
          1,
          "compile every kernel the weights in a CSV file (model,layer,n,k) can ask for",
          matmul_flags({{"m-max", "M", "prepare for M from 1 to this (default: 8192)"},
                        facts_flag(),
                        target_flag(),
                        device_flag()}),
          {"lathe warm shapes.csv --dtype bf16",
           "lathe warm shapes.csv --dtype bf16 --target sm_90a --facts h200 --cache-dir h200-cache"},
          warm};
}

}  // namespace lathe::cli
