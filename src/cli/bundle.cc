// lathe bundle ..., and what goes between the cache and bundles.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/entry_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

void print_written(const std::string& path, const lathe_bundle_report& r) {
  absl::PrintF("%s: %d kernels, %d distinct, %d bytes (%d unpacked)\n", path, r.entries, r.payloads, r.bytes,
               r.unpacked_bytes);
  if (r.records > 0) absl::PrintF("%d records of plans and tuning\n", r.records);
  if (r.duplicates > 0) absl::PrintF("%d were in an earlier source already\n", r.duplicates);
  if (r.defects > 0) absl::PrintF("%d were damaged and are left out\n", r.defects);
}

absl::Status write(const Arguments& arguments, const std::vector<std::string>& sources) {
  std::vector<const char*> pointers;
  for (const std::string& source : sources) pointers.push_back(source.c_str());
  const std::string target = arguments.text("target", "");
  lathe_bundle_report report = LATHE_BUNDLE_REPORT_INIT;
  if (absl::Status s = check(lathe_bundle_write(arguments.words[0].c_str(), pointers.data(), pointers.size(),
                                                arguments.has("target") ? target.c_str() : nullptr, &report));
      !s.ok())
    return s;
  print_written(arguments.words[0], report);
  return absl::OkStatus();
}

std::vector<std::string> sources_of(const Arguments& arguments) {
  return {arguments.words.begin() + 1, arguments.words.end()};
}

absl::Status create(const Arguments& arguments) {
  for (const std::string& source : sources_of(arguments)) {
    std::error_code error;
    if (!std::filesystem::is_directory(source, error))
      return absl::InvalidArgumentError(
          absl::StrCat("'", source, "' is no cache directory; 'lathe bundle merge' takes bundles"));
  }
  return write(arguments, sources_of(arguments));
}

absl::Status merge(const Arguments& arguments) {
  for (const std::string& source : sources_of(arguments)) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(source, error))
      return absl::InvalidArgumentError(
          absl::StrCat("'", source, "' is no file; 'lathe bundle create' takes cache directories"));
  }
  return write(arguments, sources_of(arguments));
}

absl::StatusOr<Json> list_bundle(const Arguments& arguments) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_bundle_list(arguments.words[0].c_str(), collect_text, &pieces)); !s.ok())
    return s;
  return parse_json(pieces, "bundle");
}

absl::Status ls(const Arguments& arguments) {
  absl::StatusOr<Json> list = list_bundle(arguments);
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
  absl::StatusOr<Json> list = list_bundle(arguments);
  if (!list.ok()) return list.status();
  const Json defects = list->value("defects", Json::array());
  for (const Json& defect : defects) absl::PrintF("%s\n", defect.value("cause", "?"));
  absl::PrintF("%d kernels are whole, %d are not; %d records\n", list->value("entries", Json::array()).size(),
               defects.size(), list->value("records", Json::array()).size());
  if (defects.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(defects.size(), " damaged kernels in ", arguments.words[0], "; each is a miss"));
}

// The context's cache directory.
absl::StatusOr<std::string> directory_of(const Context& context) {
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_cache_list(context.get(), collect_text, &pieces)); !s.ok()) return s;
  absl::StatusOr<Json> list = parse_json(pieces, "cache");
  if (!list.ok()) return list.status();
  const std::string directory = list->value("directory", "");
  if (directory.empty()) return absl::FailedPreconditionError("there is no cache directory to export");
  return directory;
}

absl::Status export_cache(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  absl::StatusOr<std::string> directory = directory_of(*context);
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
  absl::PrintF("%d kernels taken, %d were there, %d are damaged; %d records taken\n", report.entries,
               report.duplicates, report.defects, report.records);
  return absl::OkStatus();
}

const Flag kTarget = {"target", "T", "only what was made for this target (sm_90a, gfx942, x86-64, ...)"};

}  // namespace

Verb bundle_create_verb() {
  return {"bundle create",
          "OUT DIR...",
          -2,
          "pack the kernels of cache directories, for any number of targets, into one read-only file",
          {kTarget},
          {"lathe bundle create kernels.bundle h200-cache mi300x-cache"},
          create};
}
Verb bundle_ls_verb() {
  return {"bundle ls",
          "BUNDLE",
          1,
          "a bundle's kernels",
          {{"json", nullptr, "as JSON, with whole keys, and records"},
           {"records", nullptr, "its records of tuning and plans instead"}},
          {},
          ls};
}
Verb bundle_verify_verb() {
  return {"bundle verify",
          "BUNDLE",
          1,
          "read and check every kernel of a bundle (exit 1 if one is damaged)",
          {},
          {},
          verify};
}
Verb bundle_merge_verb() {
  return {"bundle merge",
          "OUT BUNDLE...",
          -2,
          "join bundles; of a kernel that several have the first counts",
          {kTarget},
          {},
          merge};
}
Verb cache_export_verb() {
  return {"cache export", "OUT", 1, "pack the cache's kernels into a bundle", {kTarget}, {}, export_cache};
}
Verb cache_import_verb() {
  return {"cache import", "BUNDLE", 1, "write a bundle's kernels into the cache directory", {}, {},
          import_cache};
}

}  // namespace lathe::cli
