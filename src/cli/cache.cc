#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

// "cpu x86-64", "cuda sm_90a"
std::string target_of(const Json& key) {
  const Json target = key.value("target", Json::object());
  return absl::StrCat(target.value("backend", "?"), " ", target.value("arch", "?"));
}

// "matmul f32 n=4096 k=4096 m 17..32", "argmax f32 row 1025..16384"
std::string class_of(const Json& key) {
  const Json c = key.value("class", Json::object());
  const std::string op = c.value("op", "?"), dtype = c.value("a", "?");
  if (op != "matmul") {
    return absl::StrCat(op, " ", dtype, " row ", c.value("row_lo", 0), "..", c.value("row_hi", 0));
  }
  const int64_t lo = c.value("m_lo", int64_t{0}), hi = c.value("m_hi", int64_t{0});
  std::string m = absl::StrCat(lo);
  if (hi != lo) absl::StrAppend(&m, "..", hi == INT32_MAX ? "" : absl::StrCat(hi));
  return absl::StrCat(op, " ", dtype, " ", c.value("trans_a", 0) ? "t" : "n",
                      c.value("trans_b", 0) ? "t" : "n", " m ", m, " n ", c.value("n", int64_t{0}), " k ",
                      c.value("k", int64_t{0}));
}

absl::Status ls(const Arguments& arguments) {
  absl::StatusOr<Json> list = list_cache(arguments);
  if (!list.ok()) return list.status();
  if (arguments.has("json")) {
    std::puts(list->dump(2).c_str());
    return absl::OkStatus();
  }
  for (const Json& entry : list->value("entries", Json::array())) {
    const Json key = entry.value("key", Json::object());
    absl::PrintF("%9d  %-40s  %-14s %s\n", entry.value("bytes", int64_t{0}), entry.value("file", "?"),
                 target_of(key), class_of(key));
  }
  return absl::OkStatus();
}

absl::Status stats(const Arguments& arguments) {
  absl::StatusOr<Json> list = list_cache(arguments);
  if (!list.ok()) return list.status();
  struct Group {
    int64_t entries = 0, bytes = 0;
  };
  std::map<std::string, Group> groups;
  Group all;
  for (const Json& entry : list->value("entries", Json::array())) {
    const Json key = entry.value("key", Json::object());
    const std::string op = key.value("class", Json::object()).value("op", "?");
    for (Group* g : {&all, &groups[absl::StrCat(op, " on ", target_of(key))]}) {
      ++g->entries;
      g->bytes += entry.value("bytes", int64_t{0});
    }
  }
  const std::string directory = list->value("directory", "");
  absl::PrintF("directory  %s\n", directory.empty() ? "none: memory only" : directory);
  absl::PrintF("entries    %d, %d bytes\n", all.entries, all.bytes);
  for (const auto& [name, g] : groups)
    absl::PrintF("           %d, %d bytes  %s\n", g.entries, g.bytes, name);
  if (const int64_t rejected = list->value("rejected", int64_t{0})) {
    absl::PrintF("defective  %d files, treated as misses\n", rejected);
  }
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

}  // namespace

Verb cache_ls_verb() {
  return {"cache ls",
          "",
          0,
          "the disk cache's entries",
          {{"json", nullptr, "as JSON, with whole keys"}},
          {"lathe cache ls --cache-dir /var/cache/engine"},
          ls};
}

Verb cache_stats_verb() {
  return {"cache stats", "", 0, "how much it holds, by op and target", {}, {}, stats};
}

Verb cache_clear_verb() {
  return {"cache clear", "", 0, "remove every entry, and nothing else in the directory", {}, {}, clear};
}

}  // namespace lathe::cli
