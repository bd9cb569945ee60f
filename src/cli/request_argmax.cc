// Reads an argmax request from flags, and makes its descriptor.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/ops.h"
#include "cli/request_flags.h"

namespace lathe::cli {
namespace {

std::vector<Flag> argmax_flags(const std::vector<Flag>& more) {
  return joined({{"dtype", "f32|f16|bf16", "dtype of the rows (default: f32)"},
                 kIndexDtype,
                 kIndexOffset,
                 {"values", nullptr, "also return the maxima"},
                 kDeterminism,
                 kDependentLaunch,
                 kPadding,
                 {"split-k", "N", "force the total number of workgroups for all rows"},
                 kCandidate},
                more);
}

std::vector<Flag> argmax_run_flags(const std::vector<Flag>& more) {
  return argmax_flags(joined({kMisalign, kFill}, more));
}

}  // namespace

absl::StatusOr<reference::ArgmaxRequest> argmax_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "ROWSxN");
  if (!shape.ok()) return shape.status();
  reference::ArgmaxRequest r;
  r.rows = (*shape)[0];
  r.n = (*shape)[1];
  const absl::Status s = first_error({
      read_dtype(arguments, "dtype", reference::float_names(), &r.dtype),
      read_indices(arguments, &r),
  });
  if (!s.ok()) return s;
  return r;
}

std::string command_of(const reference::ArgmaxRequest& r) {
  const reference::ArgmaxRequest d;
  return absl::StrCat(absl::StrFormat("argmax %dx%d", r.rows, r.n), flag_text("dtype", r.dtype, d.dtype),
                      indices_text(r));
}

lathe_argmax_desc descriptor(const reference::ArgmaxRequest& r, lathe_tuning* tuning) {
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = r.rows;
  desc.n = r.n;
  desc.x.dtype = r.dtype;
  desc.x.leading_dimension = reference::specs_of(r).x.leading_dimension();
  desc.index_dtype = r.index_dtype;
  desc.index_offset = r.index_offset;
  desc.determinism = r.determinism;
  desc.dependent_launch = r.dependent_launch;
  if (r.values) desc.values = static_cast<float*>(present());
  desc.next = chain_tuning(r.split_k, r.candidate, tuning);
  return desc;
}

OpRow argmax_op() {
  return {"argmax",
          "an argmax",
          "ROWSxN",
          "every number of rows and every row length",
          argmax_flags,
          argmax_run_flags,
          [](const Arguments& arguments) { return as_any(argmax_request(arguments)); },
          {{"run", "4x151936"},
           {"run", "64x128256 --dtype bf16 --values"},
           {"bench", "4x151936 --dtype bf16"},
           {"explain", "4x151936 --facts mi300x"},
           {"dump", "4x151936 --facts mi300x"},
           {"tune", "4x151936 --dtype bf16"}}};
}

}  // namespace lathe::cli
