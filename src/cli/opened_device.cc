#include "cli/opened_device.h"

#include <algorithm>

namespace lathe::cli {
namespace {

// The external libraries that Lathe would look for on this device, each found or absent, as lathe_explain_matmul lists
// them.
absl::StatusOr<Json> libraries_of(lathe_device* device) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = desc.n = desc.k = 64;
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  lathe_external wanted = LATHE_EXTERNAL_INIT;
  wanted.use = LATHE_EXTERNAL_ALLOW;
  desc.next = reinterpret_cast<const lathe_chain*>(&wanted);
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_explain_matmul(device, &desc, collect_text, &pieces)); !s.ok()) return s;
  absl::StatusOr<Json> json = parse_json(pieces, "explain");
  if (!json.ok()) return json.status();
  return json->at("external").at("found");
}

}  // namespace

absl::StatusOr<OpenedDevice> open_named(const Arguments& arguments, const std::string& name,
                                        const ExternalUse& external) {
  OpenedDevice opened;
  opened.name = name;
  absl::StatusOr<Context> context = make_context(arguments, external);
  if (!context.ok()) return context.status();
  opened.context = *std::move(context);
  lathe_device* device = nullptr;
  if (absl::Status s = check(lathe_device_open(opened.context.get(), name.c_str(), &device)); !s.ok())
    return s;
  opened.device = Device(device);
  absl::StatusOr<Stream> stream = Stream::make(device);
  if (!stream.ok()) return stream.status();
  opened.stream = *std::move(stream);
  return opened;
}

absl::StatusOr<std::vector<OpenedDevice>> open_for_externals(const Arguments& arguments,
                                                             const OpenedDevice& device) {
  const absl::StatusOr<Json> libraries = libraries_of(device.device.get());
  if (!libraries.ok()) return libraries.status();
  std::vector<OpenedDevice> devices;
  for (const Json& found : *libraries) {
    if (!found.at("absent").get<std::string>().empty()) continue;
    const auto library = found.at("library").get<std::string>();
    const auto& names = external_libraries();
    const auto at = std::find(names.begin(), names.end(), library) - names.begin();
    absl::StatusOr<OpenedDevice> opened = open_named(
        arguments, device.name, {LATHE_EXTERNAL_REQUIRE, static_cast<lathe_external_library>(at + 1)});
    if (!opened.ok()) return opened.status();
    opened->name = library;
    devices.push_back(*std::move(opened));
  }
  return devices;
}

}  // namespace lathe::cli
