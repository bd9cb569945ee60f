#include <cstdio>

#include "cli/plan_text.h"
#include "cli/planned.h"
#include "cli/request.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "cli/warm_manifest.h"

namespace lathe::cli {
namespace {

template <typename Request>
absl::Status print_explanation(const Arguments& arguments, const absl::StatusOr<Request>& request) {
  if (!request.ok()) return request.status();
  absl::StatusOr<Opened> opened = open(arguments);
  if (!opened.ok()) return opened.status();
  absl::StatusOr<Json> json = explain(opened->device.get(), *request);
  if (!json.ok()) return json.status();
  std::fputs(arguments.has("json") ? (json->dump(2) + "\n").c_str() : explain_text(*json).c_str(), stdout);
  return absl::OkStatus();
}

absl::Status explain_matmul(const Arguments& arguments) {
  return print_explanation(arguments, matmul_request_with_shape(arguments));
}
absl::Status explain_argmax(const Arguments& arguments) {
  return print_explanation(arguments, argmax_request(arguments));
}
absl::Status explain_matmul_argmax(const Arguments& arguments) {
  return print_explanation(arguments, matmul_argmax_request(arguments));
}
absl::Status explain_elementwise(const Arguments& arguments) {
  return print_explanation(arguments, elementwise_request(arguments));
}

std::vector<Flag> explain_flags() {
  return {facts_flag(), target_flag(), device_flag(), {"json", nullptr, "print JSON"}};
}

}  // namespace

Verb explain_matmul_verb() {
  return {"explain matmul",
          "MxNxK",
          1,
          "print the plan, its predicted time, and all other candidates with reasons; compiles nothing",
          matmul_flags(explain_flags()),
          {"lathe explain matmul 1x28672x4096 --dtype bf16",
           "lathe explain matmul 64x4096x4096 --dtype f16 --facts h200 --target sm_90a"},
          explain_matmul};
}

Verb explain_argmax_verb() {
  return {"explain argmax",
          "ROWSxN",
          1,
          "print the plan and all candidates of an argmax; compiles nothing",
          argmax_flags(explain_flags()),
          {"lathe explain argmax 4x151936 --facts mi300x"},
          explain_argmax};
}

Verb explain_matmul_argmax_verb() {
  return {"explain matmul_argmax",
          "MxNxK",
          1,
          "print the plan and all candidates of a matmul_argmax; compiles nothing",
          matmul_argmax_flags(explain_flags()),
          {"lathe explain matmul_argmax 16x128256x4096 --dtype bf16 --facts h200"},
          explain_matmul_argmax};
}

Verb explain_elementwise_verb() {
  return {"explain elementwise",
          "MxN",
          1,
          "print the plan and all candidates of an elementwise program; compiles nothing",
          elementwise_flags(explain_flags()),
          {"lathe explain elementwise 2048x4096 --program scaled.json --facts h200"},
          explain_elementwise};
}

}  // namespace lathe::cli
