// lathe bundle ..., and lathe cache export and import.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/entry_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

void print_written(const std::string& path, const lathe_bundle_report& r) {
  absl::PrintF("%s: %d kernels, %d distinct, %d bytes (%d unpacked)\n", path, r.entries, r.payloads, r.bytes,
               r.unpacked_bytes);
  if (r.records > 0) absl::PrintF("%d records of plans and tuning\n", r.records);
  if (r.duplicates > 0) absl::PrintF("%d entries were already in an earlier source\n", r.duplicates);
  if (r.defects > 0) absl::PrintF("%d damaged entries are left out\n", r.defects);
}

absl::StatusOr<lathe_bundle_report> pack(const std::string& path, const std::vector<std::string>& sources,
                                         const char* target) {
  std::vector<const char*> pointers;
  for (const std::string& source : sources) pointers.push_back(source.c_str());
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  if (absl::Status s =
          check(lathe_bundle_write(path.c_str(), pointers.data(), pointers.size(), target, &report));
      !s.ok())
    return s;
  return report;
}

absl::StatusOr<Json> list_bundle(const std::string& path) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_bundle_list(path.c_str(), collect_text, &pieces)); !s.ok()) return s;
  return parse_json(pieces, "bundle");
}

// The error for a bundle without entries: names the targets that the sources have. Overwrites `draft`.
absl::Status nothing_taken(const std::string& draft, const std::vector<std::string>& sources,
                           const char* target) {
  const std::string in = absl::StrJoin(sources, ", ");
  const absl::StatusOr<lathe_bundle_report> all = pack(draft, sources, nullptr);
  if (!all.ok()) return all.status();
  absl::StatusOr<Json> list = list_bundle(draft);
  if (!list.ok()) return list.status();
  std::set<std::string> targets;
  for (const char* kind : {"entries", "records"})
    for (const Json& entry : list->value(kind, Json::array()))
      targets.insert(object_of(object_of(entry, "key"), "target").value("arch", "?"));
  if (targets.empty())
    return absl::NotFoundError(
        absl::StrCat("there is no kernel in ", in,
                     all->defects > 0 ? absl::StrCat("; ", all->defects, " entries are damaged") : ""));
  return absl::NotFoundError(absl::StrCat("--target ", target, ": no kernel in ", in,
                                          " has this target; they have ", absl::StrJoin(targets, ", ")));
}

// Writes to a draft and renames it, so that OUT does not change if there is nothing to write.
absl::Status write(const Arguments& arguments, const std::vector<std::string>& sources) {
  const std::string &path = arguments.words[0], draft = absl::StrCat(path, ".", getpid(), ".draft");
  const std::string name = arguments.text("target", "");
  const char* target = arguments.has("target") ? name.c_str() : nullptr;
  const absl::StatusOr<lathe_bundle_report> report = pack(draft, sources, target);
  if (!report.ok()) return report.status();
  absl::Status s;
  if (report->entries + report->records == 0)
    s = nothing_taken(draft, sources, target);
  else if (std::rename(draft.c_str(), path.c_str()) != 0)
    s = absl::ErrnoToStatus(errno, path);
  if (s.ok())
    print_written(path, *report);
  else
    std::remove(draft.c_str());
  return s;
}

std::vector<std::string> sources_of(const Arguments& arguments) {
  return {arguments.words.begin() + 1, arguments.words.end()};
}

absl::Status create(const Arguments& arguments) {
  for (const std::string& source : sources_of(arguments)) {
    std::error_code error;
    if (!std::filesystem::is_directory(source, error))
      return absl::InvalidArgumentError(
          absl::StrCat("'", source, "' is not a cache directory; for bundles use 'lathe bundle merge'"));
  }
  return write(arguments, sources_of(arguments));
}

absl::Status merge(const Arguments& arguments) {
  for (const std::string& source : sources_of(arguments)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(source, error))
      return absl::InvalidArgumentError(
          absl::StrCat("'", source, "' is not a file; for cache directories use 'lathe bundle create'"));
  }
  return write(arguments, sources_of(arguments));
}

absl::Status ls(const Arguments& arguments) {
  if (absl::Status s = arguments.not_both("json", "records"); !s.ok()) return s;
  absl::StatusOr<Json> list = list_bundle(arguments.words[0]);
  if (!list.ok()) return list.status();
  if (arguments.has("json")) {
    std::puts(list->dump(2).c_str());
    return absl::OkStatus();
  }
  if (arguments.has("records")) {
    for (const Json& record : list->value("records", Json::array()))
      absl::PrintF("%s\n", record_line(object_of(record, "record")));
    return absl::OkStatus();
  }
  for (const Json& entry : list->value("entries", Json::array())) {
    const Json key = object_of(entry, "key");
    absl::PrintF("%9d  %9d stored  %-14s %s%s\n", entry.value("bytes", int64_t{0}),
                 entry.value("stored_bytes", int64_t{0}), target_of(key), class_of(key), assembler_of(entry));
  }
  return absl::OkStatus();
}

absl::Status verify(const Arguments& arguments) {
  absl::StatusOr<Json> list = list_bundle(arguments.words[0]);
  if (!list.ok()) return list.status();
  const Json defects = list->value("defects", Json::array());
  for (const Json& defect : defects) absl::PrintF("%s\n", defect.value("cause", "?"));
  absl::PrintF("%d good kernels, %d damaged; %d records\n", list->value("entries", Json::array()).size(),
               defects.size(), list->value("records", Json::array()).size());
  if (defects.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(defects.size(), " damaged kernels in ", arguments.words[0], "; each of them is a miss"));
}

// The context's cache directory. Takes the name from the flag or the environment if it can: the name in the JSON is
// UTF-8, but a directory's name need not be.
absl::StatusOr<std::string> directory_of(const Arguments& arguments, const Context& context) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_cache_list(context.get(), collect_text, &pieces)); !s.ok()) return s;
  absl::StatusOr<Json> list = parse_json(pieces, "cache");
  if (!list.ok()) return list.status();
  const std::string directory = list->value("directory", "");
  if (directory.empty())
    return absl::FailedPreconditionError("there is no cache directory to export: give --cache-dir DIR");
  const char* named = std::getenv("LATHE_CACHE_DIR");
  return arguments.text("cache-dir", named != nullptr ? named : directory);
}

absl::Status export_cache(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<std::string> directory = directory_of(arguments, *context);
  if (!directory.ok()) return directory.status();
  return write(arguments, {*directory});
}

absl::Status import_cache(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  if (absl::Status s = check(lathe_cache_import(context->get(), arguments.words[0].c_str(), &report));
      !s.ok())
    return s;
  absl::PrintF("%d kernels imported, %d already there, %d damaged; %d records imported\n", report.entries,
               report.duplicates, report.defects, report.records);
  return absl::OkStatus();
}

const Flag kTarget = {"target", "TARGET", "only the kernels for this target (sm_90a, gfx942, x86-64, ...)"};

}  // namespace

Verb bundle_create_verb() {
  return {"bundle create",
          "OUT DIR...",
          -2,
          "pack the kernels of cache directories into one read-only file, for any number of targets",
          {kTarget},
          {"lathe bundle create kernels.bundle h200-cache mi300x-cache"},
          create};
}
Verb bundle_ls_verb() {
  return {"bundle ls",
          "BUNDLE",
          1,
          "list the kernels of a bundle",
          {{"json", nullptr, "print JSON, with full keys and the records"},
           {"records", nullptr, "list the records of tuning and plans instead"}},
          {},
          ls};
}
Verb bundle_verify_verb() {
  return {"bundle verify",
          "BUNDLE",
          1,
          "read and check every kernel of a bundle (exit code 1 if one is damaged)",
          {},
          {},
          verify};
}
Verb bundle_merge_verb() {
  return {"bundle merge",
          "OUT BUNDLE...",
          -2,
          "join bundles; if several have a kernel, that of the first one is taken",
          {kTarget},
          {},
          merge};
}
Verb cache_export_verb() {
  return {"cache export", "OUT", 1,           "pack the kernels of the cache directory into a bundle",
          {kTarget},      {},    export_cache};
}
Verb cache_import_verb() {
  return {"cache import", "BUNDLE", 1, "copy the kernels of a bundle into the cache directory", {}, {},
          import_cache};
}

}  // namespace lathe::cli
