#include <cstdio>

#include "cli/ops.h"
#include "cli/plan_text.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

absl::Status print_explanation(const Arguments& arguments, const AnyRequest& request) {
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Json> json = explain(opened->device.get(), request);
  if (!json.ok()) return json.status();
  std::fputs(arguments.has("json") ? (json->dump(2) + "\n").c_str() : explain_text(*json).c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace

std::vector<Verb> explain_verbs() {
  return verbs_of_ops("explain",
                      "print the plan of %s, its predicted time, and all other candidates with reasons; "
                      "compiles nothing",
                      {facts_flag(), target_flag(), device_flag(), {"json", nullptr, "print JSON"}},
                      /*runs=*/false, print_explanation);
}

}  // namespace lathe::cli
