// C functions: bundles, and imports from them into the cache directory.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "cache/bundle.h"
#include "cache/pack.h"
#include "core/facts.h"
#include "core/json_object.h"
#include "dispatch/context.h"

namespace lathe {
namespace {

void fill(const PackReport& from, lathe_bundle_report* to) {
  if (to == nullptr) return;
  to->entries = from.entries;
  to->payloads = from.payloads;
  to->duplicates = from.duplicates;
  to->defects = from.defects;
  to->bytes = from.bytes;
  to->unpacked_bytes = from.unpacked_bytes;
  to->records = from.records;
}

absl::Status check_report(const lathe_bundle_report* report) {
  return report == nullptr ? absl::OkStatus() : check_out_struct("lathe_bundle_report", report);
}

// Whether a key belongs to the target. `name` is an architecture, which matches all its features, or a whole target
// that parse_target read as `target`.
bool is_of_target(absl::string_view key_text, const std::string& name, const absl::StatusOr<Target>& target) {
  const absl::StatusOr<Json> key = parse_json(key_text, "key");
  if (!key.ok() || !key->is_object() || !key->contains("target")) return false;
  const Json& of = (*key)["target"];
  return (of.is_object() && of.contains("arch") && of["arch"] == name) ||
         (target.ok() && of == to_json(*target));
}

absl::StatusOr<Json> bundle_json(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<Bundle>> bundle = Bundle::open(path);
  if (!bundle.ok()) return absl::InvalidArgumentError(bundle.status().message());
  Json entries(Json::value_t::array), defects(Json::value_t::array), records(Json::value_t::array);
  uint64_t unpacked = 0, stored = 0;
  for (size_t i = 0; i < (*bundle)->size(); ++i) {
    const absl::StatusOr<std::string> payload = (*bundle)->payload(i);
    if (payload.ok() && is_record(*payload)) {
      const absl::StatusOr<PlanRecord> record =
          record_of(key_from_text(std::string((*bundle)->key_text(i))), *payload);
      if (absl::IsUnimplemented(record.status())) continue;  // a record of another version
      if (!record.ok()) {
        defects.push_back(json_object("cause", std::string(record.status().message())));
        continue;
      }
      records.push_back(json_object("stored_bytes", (*bundle)->stored_bytes(i), "bytes", payload->size(),
                                    "key", parse_json((*bundle)->key_text(i), "key").value_or(Json()),
                                    "record", to_json(*record)));
      continue;
    }
    const absl::StatusOr<Artifact> artifact =
        payload.ok() ? parse_artifact(*payload) : absl::StatusOr<Artifact>(payload.status());
    if (!artifact.ok()) {
      defects.push_back(json_object("cause", std::string(artifact.status().message())));
      continue;
    }
    absl::StatusOr<Json> key = parse_json((*bundle)->key_text(i), "key");
    absl::StatusOr<Json> metadata = parse_json(artifact->metadata, "metadata");
    entries.push_back(json_object("stored_bytes", (*bundle)->stored_bytes(i), "bytes", payload->size(),
                                  "format", std::string(name_of(artifact->format)), "metadata",
                                  metadata.ok() ? *std::move(metadata) : Json::object(), "key",
                                  key.ok() ? *std::move(key) : Json(std::string((*bundle)->key_text(i)))));
    unpacked += payload->size();
    stored += (*bundle)->stored_bytes(i);
  }
  const absl::StatusOr<Json> about = parse_json((*bundle)->about(), "about");
  const size_t rejected = defects.size();
  return json_object("path", path, "about", about.ok() ? *about : Json::object(), "bytes",
                     (*bundle)->file_bytes(), "stored_bytes", stored, "unpacked_bytes", unpacked, "rejected",
                     rejected, "defects", std::move(defects), "entries", std::move(entries), "records",
                     std::move(records));
}

}  // namespace
}  // namespace lathe

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_bundle_write(const char* path, const char* const* sources, size_t source_count,
                                const char* target, lathe_bundle_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (path == nullptr) return null_argument("lathe_bundle_write", "path");
    if (sources == nullptr && source_count != 0) return null_argument("lathe_bundle_write", "sources");
    LATHE_RETURN_IF_ERROR(lathe::check_report(report));
    std::vector<std::string> paths;
    for (size_t i = 0; i < source_count; ++i) {
      if (sources[i] == nullptr) return null_argument("lathe_bundle_write", absl::StrCat("sources[", i, "]"));
      paths.emplace_back(sources[i]);
    }
    const std::string name = target == nullptr ? "" : target;
    const absl::StatusOr<lathe::Target> parsed = lathe::parse_target(name);
    LATHE_ASSIGN_OR_RETURN(const lathe::PackReport written,
                           lathe::write_bundle(path, paths, [&](absl::string_view key) {
                             return target == nullptr || lathe::is_of_target(key, name, parsed);
                           }));
    lathe::fill(written, report);
    return absl::OkStatus();
  });
}

lathe_status lathe_bundle_list(const char* path, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (path == nullptr) return null_argument("lathe_bundle_list", "path");
    if (text == nullptr) return null_argument("lathe_bundle_list", "text");
    LATHE_ASSIGN_OR_RETURN(const lathe::Json json, lathe::bundle_json(path));
    lathe::pass_text(text, user, "bundle", json);
    return absl::OkStatus();
  });
}

lathe_status lathe_cache_import(lathe_context* context, const char* path, lathe_bundle_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (context == nullptr) return null_argument("lathe_cache_import", "context");
    if (path == nullptr) return null_argument("lathe_cache_import", "path");
    LATHE_RETURN_IF_ERROR(lathe::check_report(report));
    LATHE_ASSIGN_OR_RETURN(const lathe::PackReport read, lathe::import_bundle(path, *context->cache));
    lathe::fill(read, report);
    return absl::OkStatus();
  });
}

}  // extern "C"
