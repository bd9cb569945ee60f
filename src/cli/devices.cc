#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "cli/plan_text.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace lathe::cli {
namespace {

std::string target_line(const Json& target) {
  const std::string features = target.value("features", "");
  return absl::StrCat(target.value("arch", "?"), features.empty() ? "" : " ", features);
}

absl::Status devices(const Arguments& arguments) {
  absl::StatusOr<Context> context = make_context(arguments);
  if (!context.ok()) return context.status();
  std::vector<Text> pieces;
  if (absl::Status s = check(lathe_devices(context->get(), collect_text, &pieces)); !s.ok()) return s;
  absl::StatusOr<Json> list = parse_json(pieces, "devices");
  if (!list.ok()) return list.status();
  if (arguments.has("json")) {
    std::puts(list->dump(2).c_str());
    return absl::OkStatus();
  }
  for (const Json& device : *list) {
    const std::string name = device.value("name", "?");
    if (!device.value("available", false)) {
      // The reason names the device itself: "cuda: not available, because ...".
      const std::string reason = device.value("reason", "not available");
      absl::PrintF("%-8s %s\n", name, absl::StripPrefix(reason, absl::StrCat(name, ": ")));
      continue;
    }
    absl::PrintF("%-8s %s\n", name, device.value("description", ""));
    if (const std::string machine = device.value("machine", ""); !machine.empty())
      absl::PrintF("         machine %s\n", machine);
    if (device.contains("target")) absl::PrintF("         target  %s\n", target_line(device["target"]));
    if (const std::string calibration = device.value("calibration", ""); !calibration.empty())
      absl::PrintF("         calibration %s\n", calibration);
    absl::PrintF("%s", facts_lines(device.value("facts", Json::object()), "         "));
  }
  return absl::OkStatus();
}

}  // namespace

Verb devices_verb() {
  return {"devices",
          "",
          0,
          "list every device that this build supports: its facts, whether each was measured or comes from a "
          "table or from "
          "the system, or why the device is not available",
          {{"json", nullptr, "print JSON"}},
          {"lathe devices"},
          devices};
}

}  // namespace lathe::cli
