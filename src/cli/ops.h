// The ops of the command, one row each. Every verb that takes a request (run, bench, explain, dump, tune, warm) is made
// from these rows, and so are the calls of the public API below.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/command_line.h"
#include "cli/request_elementwise.h"
#include "cli/session.h"
#include "reference/argmax.h"
#include "reference/grouped_matmul.h"
#include "reference/matmul.h"
#include "reference/matmul_argmax.h"

namespace lathe::cli {

// X(name, request, rows): the op has lathe_<name>_desc, the functions declared below, and make_trial() (trial.h).
// `rows` is BUCKETS if lathe_manifest_add_<name> takes the largest M, otherwise OPEN.
#define LATHE_COMMAND_OPS(X)                                  \
  X(matmul, reference::MatmulRequest, BUCKETS)                \
  X(argmax, reference::ArgmaxRequest, OPEN)                   \
  X(matmul_argmax, reference::MatmulArgmaxRequest, BUCKETS)   \
  X(grouped_matmul, reference::GroupedMatmulRequest, BUCKETS) \
  X(elementwise, ElementwiseRequest, OPEN)

using AnyRequest =
    std::variant<reference::MatmulRequest, reference::ArgmaxRequest, reference::MatmulArgmaxRequest,
                 reference::GroupedMatmulRequest, ElementwiseRequest>;

struct OpRow {
  const char* name;    // "matmul"
  const char* noun;    // in help texts: "a matmul"
  const char* shape;   // the word that gives the sizes: "MxNxK"
  const char* warmed;  // what a warm-up of one request covers: "every M up to the given one"
  // The flags of a request, followed by `more`. The run flags add those that only matter if it runs. Null `run_flags`:
  // the command does not run the op on its own.
  std::vector<Flag> (*flags)(const std::vector<Flag>& more);
  std::vector<Flag> (*run_flags)(const std::vector<Flag>& more);
  absl::StatusOr<AnyRequest> (*request)(const Arguments& arguments);
  std::vector<std::pair<std::string, std::string>> examples;  // {"run", "4x151936 --values"}
};
const std::vector<OpRow>& op_rows();

// For each op:
//   <name>_op()       its row
//   <name>_request()  reads a request from the flags and the first word, the shape
//   command_of()      the words and flags that <name>_request() reads as `r`: "matmul 2x3x4 --dtype bf16 ..."
//   descriptor()      its data pointers are NULL, unless their presence is part of the class. If the request overrides the
//                     oracle, `tuning` is filled and chained, and must live as long as the descriptor.
#define LATHE_DECLARE(name, request, rows)                            \
  OpRow name##_op();                                                  \
  absl::StatusOr<request> name##_request(const Arguments& arguments); \
  std::string command_of(const request& r);                           \
  lathe_##name##_desc descriptor(const request& r, lathe_tuning* tuning);
LATHE_COMMAND_OPS(LATHE_DECLARE)
#undef LATHE_DECLARE

// For OpRow::request.
template <typename Request>
absl::StatusOr<AnyRequest> as_any(absl::StatusOr<Request> request) {
  if (!request.ok()) return request.status();
  return AnyRequest(*std::move(request));
}

// What a verb does with a request.
using RequestVerb = absl::Status (*)(const Arguments& arguments, const AnyRequest& request);
// The verb `verb` ("explain") for each op. In `summary`, %s becomes the op's noun and %w its `warmed`. With `runs`, the
// verb takes the run flags, and ops that do not run are left out.
std::vector<Verb> verbs_of_ops(const std::string& verb, const std::string& summary,
                               const std::vector<Flag>& more, bool runs, RequestVerb act);

std::string command_of(const AnyRequest& request);
// The fields of all ops.
const reference::OpRequest& common_fields(const AnyRequest& request);
reference::OpRequest& common_fields(AnyRequest& request);

// As lathe_plan_matmul: on a device of this machine the kernel is loaded, or compiled first.
absl::StatusOr<Plan> plan(lathe_device* device, const AnyRequest& request);
// As lathe_explain_matmul: compiles, loads and stores nothing.
absl::StatusOr<Json> explain(lathe_device* device, const AnyRequest& request);
// As lathe_tune_matmul.
absl::Status tune(lathe_device* device, const AnyRequest& request, const lathe_tune_options& options,
                  lathe_tune_report* report);
// As lathe_manifest_add_matmul. The request's M is the largest one. The device decides how B is packed.
absl::Status add_to_manifest(lathe_device* device, lathe_manifest* manifest, const AnyRequest& request);

}  // namespace lathe::cli
