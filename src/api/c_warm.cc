// C functions: manifests and warm-ups.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "dispatch/warm.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::Purpose;
using lathe::Request;

namespace {

// A manifest serves any device. So a request for it keeps the fields that some devices ignore, and K = 0.
lathe::RequestContext any_device() {
  return {"any device", /*is_cpu=*/true, lathe::MissPolicy::kBlock, true};
}

absl::Status add(absl::string_view call, lathe_manifest* manifest, const char* name, const Request& weight,
                 int64_t m_max) {
  if (m_max < 1 || m_max > lathe::kMaxDim) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": ", describe(weight), ": m_max ", m_max,
                                                   " is not in [1, ", lathe::kMaxDim, "]"));
  }
  if (lathe::is_product(weight.key.problem.op) && weight.dims.n == 0) return absl::OkStatus();
  const lathe::ManifestEntry entry = lathe::entry_of(weight, m_max, name == nullptr ? "" : name);
  LATHE_RETURN_IF_ERROR(lathe::check_class(entry.problem));
  manifest->manifest.add(entry);
  return absl::OkStatus();
}

}  // namespace

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

lathe_status lathe_manifest_add_matmul(lathe_manifest* manifest, const char* name,
                                       const lathe_matmul_desc* desc, int64_t m_max) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_add_matmul", "manifest");
    Request weight;
    LATHE_RETURN_IF_ERROR(lathe::read_matmul(desc, Purpose::kWarm, any_device(), nullptr, &weight));
    return add("lathe_manifest_add_matmul", manifest, name, weight, m_max);
  });
}

lathe_status lathe_manifest_add_argmax(lathe_manifest* manifest, const char* name,
                                       const lathe_argmax_desc* desc) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_add_argmax", "manifest");
    Request rows;
    LATHE_RETURN_IF_ERROR(lathe::read_argmax(desc, Purpose::kWarm, any_device(), nullptr, &rows));
    return add("lathe_manifest_add_argmax", manifest, name, rows, lathe::kMaxDim);
  });
}

lathe_status lathe_manifest_add_matmul_argmax(lathe_manifest* manifest, const char* name,
                                              const lathe_matmul_argmax_desc* desc, int64_t m_max) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_add_matmul_argmax", "manifest");
    Request weight;
    LATHE_RETURN_IF_ERROR(lathe::read_matmul_argmax(desc, Purpose::kWarm, any_device(), nullptr, &weight));
    return add("lathe_manifest_add_matmul_argmax", manifest, name, weight, m_max);
  });
}

lathe_status lathe_manifest_add_elementwise(lathe_manifest* manifest, const char* name,
                                            const lathe_elementwise_desc* desc) {
  return at_boundary([&]() -> absl::Status {
    if (manifest == nullptr) return null_argument("lathe_manifest_add_elementwise", "manifest");
    Request elements;
    LATHE_RETURN_IF_ERROR(lathe::read_elementwise(desc, Purpose::kWarm, any_device(), nullptr, &elements));
    return add("lathe_manifest_add_elementwise", manifest, name, elements, lathe::kMaxDim);
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
