// C functions: manifests and warm-ups.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/warm.h"

using lathe::at_boundary;
using lathe::null_argument;

extern "C" {

lathe_status lathe_manifest_create(lathe_manifest** manifest) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_create", "manifest");
    *manifest = nullptr;
    *manifest = new lathe_manifest;
    return absl::OkStatus();
  });
}

void lathe_manifest_destroy(lathe_manifest* manifest) { delete manifest; }

lathe_status lathe_manifest_parse(lathe_manifest* manifest, const char* text, size_t size) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_parse", "manifest");
    if (text == nullptr) return null_argument("lathe_manifest_parse", "text");
    LATHE_ASSIGN_OR_RETURN(const lathe::Manifest read, lathe::parse_manifest({text, size}));
    lathe::Manifest joined = manifest->manifest;
    joined.add(read);
    manifest->manifest = std::move(joined);
    return absl::OkStatus();
  });
}

lathe_status lathe_manifest_note(lathe_manifest* manifest, const char* name, const char* value) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_note", "manifest");
    if (name == nullptr) return null_argument("lathe_manifest_note", "name");
    if (value == nullptr) return null_argument("lathe_manifest_note", "value");
    manifest->manifest.about[name] = value;
    return absl::OkStatus();
  });
}

lathe_status lathe_manifest_text(const lathe_manifest* manifest, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_text", "manifest");
    if (text == nullptr) return null_argument("lathe_manifest_text", "text");
    const std::string out = lathe::manifest_text(manifest->manifest);
    text(user, "manifest", out.data(), out.size());
    return absl::OkStatus();
  });
}

lathe_status lathe_manifest_classes(lathe_device* device, const lathe_manifest* manifest, lathe_text_fn text,
                                    void* user) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_manifest_classes", "device");
    if (manifest == nullptr) return null_argument("lathe_manifest_classes", "manifest");
    if (text == nullptr) return null_argument("lathe_manifest_classes", "text");
    for (const lathe::WarmClass& warm : lathe::classes_on(*device, manifest->manifest))
      lathe::pass_text(text, user, warm.name.c_str(), lathe::to_json(warm.key.problem));
    return absl::OkStatus();
  });
}

lathe_status lathe_warmup(lathe_device* device, const lathe_manifest* manifest,
                          const lathe_warmup_options* options, lathe_warmup_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_warmup", "device");
    if (manifest == nullptr) return null_argument("lathe_warmup", "manifest");
    if (report != nullptr) LATHE_RETURN_IF_ERROR(lathe::check_out_struct("lathe_warmup_report", report));
    LATHE_ASSIGN_OR_RETURN(const lathe::WarmOptions read, lathe::read_warm_options(device->context, options));
    lathe_warmup_report unwanted = LATHE_WARMUP_REPORT_INIT;
    return lathe::warm_up(*device, lathe::classes_on(*device, manifest->manifest), read,
                          report != nullptr ? report : &unwanted);
  });
}

}  // extern "C"
