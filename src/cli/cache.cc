#include <cstdio>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/entry_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

absl::StatusOr<Json> list_cache(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_cache_list(context->get(), collect_text, &pieces)); !s.ok()) return s;
  return parse_json(pieces, "cache");
}

void print_json(const Json& json) { std::puts(json.dump(2).c_str()); }

absl::Status ls(const Arguments& arguments) {
  if (absl::Status s = arguments.not_both("json", "records"); !s.ok()) return s;
  absl::StatusOr<Json> list = list_cache(arguments);
  if (!list.ok()) return list.status();
  if (arguments.has("json")) {
    print_json(*list);
    return absl::OkStatus();
  }
  if (arguments.has("records")) {
    for (const Json& record : list->value("records", Json::array()))
      absl::PrintF("%9d  %-8s %-40s  %s\n", record.value("bytes", int64_t{0}),
                   age_text(record.value("age_seconds", int64_t{0})), record.value("file", "?"),
                   record_line(object_of(record, "record")));
    return absl::OkStatus();
  }
  for (const Json& entry : list->value("entries", Json::array())) {
    const Json key = object_of(entry, "key");
    absl::PrintF("%9d  %-8s %4d hits  %-40s  %-14s %s%s\n", entry.value("bytes", int64_t{0}),
                 age_text(entry.value("age_seconds", int64_t{0})), entry.value("hits", uint64_t{0}),
                 entry.value("file", "?"), target_of(key), class_of(key), assembler_of(entry));
  }
  return absl::OkStatus();
}

struct Group {
  int64_t entries = 0, bytes = 0;
  double milliseconds = 0;  // compile time
};

// The entries grouped by op and target; the group "" has all of them.
std::map<std::string, Group> groups_of(const Json& list) {
  std::map<std::string, Group> groups = {{"", {}}};
  for (const Json& entry : list.value("entries", Json::array())) {
    const Json key = object_of(entry, "key");
    for (Group* g : {&groups[""], &groups[absl::StrCat(op_of(key), " on ", target_of(key))]}) {
      ++g->entries;
      g->bytes += entry.value("bytes", int64_t{0});
      g->milliseconds += compile_milliseconds(entry);
    }
  }
  return groups;
}

// The number of records of each kind.
std::map<std::string, int64_t> records_of(const Json& list) {
  std::map<std::string, int64_t> counts = {{"plan", 0}, {"tuned", 0}};
  for (const Json& record : list.value("records", Json::array()))
    ++counts[object_of(record, "record").value("kind", "?")];
  return counts;
}

// The share of lookups that found their kernel in the directory, among those that ended with a kernel. Null before the
// first lookup.
Json hit_rate(const Json& list) {
  const auto hits = list.value("hits", 0.0), made = list.value("made", 0.0);
  return hits + made > 0 ? Json(hits / (hits + made)) : Json(nullptr);
}

// A label's value, quoted for Prometheus.
std::string label_value(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}), "\"");
}

// The statistics of the directory, over all processes that use it, in Prometheus' text format. Those of one context are
// in lathe_context_metrics.
std::string prometheus_text(const Json& list, const std::map<std::string, Group>& groups) {
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    absl::StrAppend(&text, "# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  };
  const auto one = [&](const char* name, const char* type, const char* help, uint64_t value) {
    head(name, type, help);
    absl::StrAppend(&text, name, " ", value, "\n");
  };
  const auto by_group = [&](const char* name, const char* help, auto value) {
    head(name, "gauge", help);
    for (const auto& [group, g] : groups) {
      const std::pair<std::string, std::string> of = absl::StrSplit(group, absl::MaxSplits(" on ", 1));
      const std::string labels =
          absl::StrCat("{op=", label_value(of.first), ",target=", label_value(of.second), "} ");
      if (!group.empty()) text += name + labels + value(g) + "\n";
    }
  };
  by_group("lathe_cache_entries", "entries of the cache directory",
           [](const Group& g) { return absl::StrCat(g.entries); });
  by_group("lathe_cache_entry_bytes", "size of the entries",
           [](const Group& g) { return absl::StrCat(g.bytes); });
  by_group("lathe_cache_entry_compile_seconds", "time that compiling the entries took",
           [](const Group& g) { return absl::StrFormat("%.6g", g.milliseconds * 1e-3); });
  const Json cap = list.value("cap_bytes", Json());
  if (cap.is_number())
    one("lathe_cache_cap_bytes", "gauge", "size limit of the entries", cap.get<uint64_t>());
  one("lathe_cache_reads_total", "counter", "entries read by all processes, approximately",
      list.value("hits", uint64_t{0}));
  one("lathe_cache_writes_total", "counter", "entries written by all processes, approximately",
      list.value("made", uint64_t{0}));
  one("lathe_cache_defective_entries", "gauge", "defective files, which count as misses",
      list.value("rejected", uint64_t{0}));
  return text;
}

absl::Status stats(const Arguments& arguments) {
  if (absl::Status s = arguments.not_both("json", "prometheus"); !s.ok()) return s;
  absl::StatusOr<Json> list = list_cache(arguments);
  if (!list.ok()) return list.status();
  const std::map<std::string, Group> groups = groups_of(*list);
  const Group& all = groups.at("");
  if (arguments.has("prometheus")) {
    std::fputs(prometheus_text(*list, groups).c_str(), stdout);
    return absl::OkStatus();
  }
  if (arguments.has("json")) {
    Json by = Json::object();
    for (const auto& [name, g] : groups)
      if (!name.empty())
        by[name] = {{"entries", g.entries}, {"bytes", g.bytes}, {"compile_milliseconds", g.milliseconds}};
    print_json({{"directory", (*list)["directory"]},
                {"cap_bytes", (*list)["cap_bytes"]},
                {"entries", all.entries},
                {"bytes", all.bytes},
                {"hits", (*list)["hits"]},
                {"made", (*list)["made"]},
                {"hit_rate", hit_rate(*list)},
                {"compile_milliseconds", all.milliseconds},
                {"rejected", (*list)["rejected"]},
                {"records", records_of(*list)},
                {"groups", by}});
    return absl::OkStatus();
  }
  const std::string directory = list->value("directory", "");
  absl::PrintF("directory  %s\n", directory.empty() ? "none, only memory" : directory);
  absl::PrintF("entries    %d, %d bytes\n", all.entries, all.bytes);
  for (const auto& [name, g] : groups)
    if (!name.empty()) absl::PrintF("           %d, %d bytes  %s\n", g.entries, g.bytes, name);
  const std::map<std::string, int64_t> records = records_of(*list);
  absl::PrintF("records    %d of plans, %d of tuning\n", records.at("plan"), records.at("tuned"));
  const Json cap = (*list)["cap_bytes"], rate = hit_rate(*list);
  if (!directory.empty())
    absl::PrintF("cap        %s\n", cap.is_null() ? "none" : absl::StrCat(cap.get<uint64_t>(), " bytes"));
  if (!rate.is_null())
    absl::PrintF("hits       %d, entries written %d: %.1f%% of the lookups were hits\n",
                 list->value("hits", uint64_t{0}), list->value("made", uint64_t{0}),
                 100 * rate.get<double>());
  if (const int64_t rejected = list->value("rejected", int64_t{0})) {
    absl::PrintF("defective  %d files, which count as misses; 'lathe cache verify' names them\n", rejected);
  }
  return absl::OkStatus();
}

absl::Status verify(const Arguments& arguments) {
  absl::StatusOr<Json> list = list_cache(arguments);
  if (!list.ok()) return list.status();
  const Json defects = list->value("defects", Json::array());
  const size_t good = list->value("entries", Json::array()).size();
  const size_t records = list->value("records", Json::array()).size();
  if (arguments.has("json")) {
    print_json(
        {{"directory", (*list)["directory"]}, {"good", good}, {"records", records}, {"defects", defects}});
  } else {
    for (const Json& defect : defects)
      absl::PrintF("%s: %s\n", defect.value("file", "?"), defect.value("cause", "?"));
    absl::PrintF("%d good entries, %d defective; %d records\n", good, defects.size(), records);
  }
  if (defects.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(defects.size(), " defective entries in ", list->value("directory", ""),
                   "; each of them is a miss, and is replaced when its kernel is compiled again"));
}

absl::Status prune(const Arguments& arguments) {
  if (!arguments.has("to"))
    return absl::InvalidArgumentError("'lathe cache prune' needs --to SIZE, for example --to 500M");
  absl::StatusOr<uint64_t> bytes = arguments.bytes("to", 0);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  uint64_t removed = 0;
  if (absl::Status s = check(lathe_cache_prune(context->get(), *bytes, &removed)); !s.ok()) return s;
  absl::PrintF("removed %d entries\n", removed);
  return absl::OkStatus();
}

absl::Status clear(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  uint64_t removed = 0;
  if (absl::Status s = check(lathe_cache_clear(context->get(), &removed)); !s.ok()) return s;
  absl::PrintF("removed %d entries\n", removed);
  return absl::OkStatus();
}

const Flag kJson = {"json", nullptr, "print JSON"};

}  // namespace

Verb cache_ls_verb() {
  return {"cache ls",
          "",
          0,
          "list the entries of the cache directory, the least recently used first",
          {{"json", nullptr, "print JSON, with full keys and the records"},
           {"records", nullptr, "list the records of tuning and plans instead"}},
          {"lathe cache ls --cache-dir /var/cache/engine"},
          ls};
}

Verb cache_stats_verb() {
  return {"cache stats",
          "",
          0,
          "print the size of the cache directory, by op and target, and its hit rate",
          {kJson, {"prometheus", nullptr, "print Prometheus' text format"}},
          {},
          stats};
}

Verb cache_verify_verb() {
  return {"cache verify", "", 0,     "read and check every entry, and name the defective ones (exit code 1)",
          {kJson},        {}, verify};
}

Verb cache_prune_verb() {
  return {"cache prune",
          "",
          0,
          "remove the least recently used entries, and files that killed processes left",
          {{"to", "SIZE", "total size of the entries that may stay: 500M, 4G (required)"}},
          {"lathe cache prune --to 500M"},
          prune};
}

Verb cache_clear_verb() {
  return {"cache clear", "", 0, "remove every entry; other files in the directory stay", {}, {}, clear};
}

}  // namespace lathe::cli
