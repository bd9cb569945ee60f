// lathe cache top: how long the kernels in the cache took to compile.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/entry_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

struct Row {
  std::string target, what, slowest_stage;
  double milliseconds = 0, slowest_milliseconds = 0;
};

// Makes the row of an entry and adds its stages, which are [name, milliseconds] pairs in the metadata, to *stages.
Row row_of(const Json& entry, std::map<std::string, double>* stages) {
  const Json key = object_of(entry, "key");
  Row row = {target_of(key), class_of(key), "", compile_milliseconds(entry), 0};
  for (const Json& stage : object_of(entry, "metadata").value("stages", Json::array())) {
    if (!stage.is_array() || stage.size() != 2 || !stage[0].is_string() || !stage[1].is_number()) continue;
    const std::string name = stage[0];
    const double milliseconds = stage[1];
    (*stages)[name] += milliseconds;
    if (milliseconds <= row.slowest_milliseconds) continue;
    row.slowest_stage = name;
    row.slowest_milliseconds = milliseconds;
  }
  return row;
}

void print(const std::vector<Row>& rows, size_t shown, double total,
           const std::map<std::string, double>& stages) {
  absl::PrintF("%.1f s compiled %d kernels\n", total / 1e3, rows.size());
  std::vector<std::pair<double, std::string>> by_time;
  for (const auto& [name, milliseconds] : stages) by_time.emplace_back(milliseconds, name);
  std::sort(by_time.rbegin(), by_time.rend());
  for (size_t i = 0; i < std::min<size_t>(by_time.size(), 5); ++i)
    absl::PrintF("%10.1f ms  %4.1f%%  stage %s\n", by_time[i].first,
                 total > 0 ? 100 * by_time[i].first / total : 0, by_time[i].second);
  if (!rows.empty()) std::puts("");
  for (size_t i = 0; i < shown; ++i)
    absl::PrintF("%10.1f ms  %-14s %-52s longest stage: %s, %.1f ms\n", rows[i].milliseconds, rows[i].target,
                 rows[i].what, rows[i].slowest_stage.empty() ? "?" : rows[i].slowest_stage,
                 rows[i].slowest_milliseconds);
}

absl::Status top(const Arguments& arguments) {
  absl::StatusOr<int64_t> count = arguments.integer("count", 20, 1, 1000000);
  if (!count.ok()) return count.status();
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_cache_list(context->get(), collect_text, &pieces)); !s.ok()) return s;
  absl::StatusOr<Json> list = parse_json(pieces, "cache");
  if (!list.ok()) return list.status();

  std::vector<Row> rows;
  std::map<std::string, double> stages;
  double total = 0;
  for (const Json& entry : list->value("entries", Json::array())) {
    rows.push_back(row_of(entry, &stages));
    total += rows.back().milliseconds;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& x, const Row& y) {
    return std::tie(y.milliseconds, x.what, x.target) < std::tie(x.milliseconds, y.what, y.target);
  });
  const size_t shown = std::min<size_t>(rows.size(), static_cast<size_t>(*count));
  if (!arguments.has("json")) {
    print(rows, shown, total, stages);
    return absl::OkStatus();
  }
  Json kernels = Json::array();
  for (size_t i = 0; i < shown; ++i)
    kernels.push_back({{"target", rows[i].target},
                       {"class", rows[i].what},
                       {"compile_milliseconds", rows[i].milliseconds},
                       {"slowest_stage", rows[i].slowest_stage},
                       {"slowest_stage_milliseconds", rows[i].slowest_milliseconds}});
  std::puts(Json{
      {"entries", rows.size()}, {"compile_milliseconds", total}, {"stages", stages}, {"kernels", kernels}}
                .dump(2)
                .c_str());
  return absl::OkStatus();
}

}  // namespace

Verb cache_top_verb() {
  return {"cache top",
          "",
          0,
          "show where compile time went, by class and stage",
          {{"count", "N", "number of classes to list (default: 20)"}, {"json", nullptr, "print JSON"}},
          {},
          top};
}

}  // namespace lathe::cli
