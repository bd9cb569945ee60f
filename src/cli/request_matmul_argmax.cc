// Reads a matmul_argmax request from flags, and makes its descriptor.
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/ops.h"
#include "cli/request_flags.h"

namespace lathe::cli {
namespace {

std::vector<Flag> matmul_argmax_flags(const std::vector<Flag>& more) {
  return joined(
      {{"dtype", "f32|f16|bf16", "dtype of A and B (default: f32)"},
       b_dtype_flag(),
       {"logits-dtype", "f32|f16|bf16",
        "dtype of the bias; logits are rounded to it before they are compared (default: that of A)"},
       kMath,
       kLayout,
       {"bias", nullptr, "add a bias to each column"},
       kIndexDtype,
       kIndexOffset,
       {"values", nullptr, "also return the maxima"},
       kDeterminism,
       kDependentLaunch,
       kPadding,
       kPacked,
       kSplitK,
       kCandidate},
      more);
}

std::vector<Flag> matmul_argmax_run_flags(const std::vector<Flag>& more) {
  return matmul_argmax_flags(joined({kMisalign, kFill}, more));
}

}  // namespace

absl::StatusOr<reference::MatmulArgmaxRequest> matmul_argmax_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "MxNxK");
  if (!shape.ok()) return shape.status();
  reference::MatmulArgmaxRequest r;
  r.m = (*shape)[0];
  r.n = (*shape)[1];
  r.k = (*shape)[2];
  r.bias = arguments.has("bias");
  r.packed = arguments.has("packed");
  if (absl::Status s = read_dtype(arguments, "dtype", reference::float_names(), &r.dtype); !s.ok()) return s;
  r.logits_dtype = r.dtype;
  if (absl::Status s = read_dtype(arguments, "b-dtype", reference::weight_names(), &r.b_dtype); !s.ok())
    return s;
  if (r.b_dtype == r.dtype) r.b_dtype = LATHE_DTYPE_NONE;
  int layout = 2;
  const absl::Status s = first_error({
      read_dtype(arguments, "logits-dtype", reference::float_names(), &r.logits_dtype),
      read_choice(arguments, "math", kMaths, &r.math),
      read_choice(arguments, "layout", kLayouts, &layout),
      read_indices(arguments, &r),
  });
  if (!s.ok()) return s;
  r.trans_a = layout & 1;
  r.trans_b = layout & 2;
  return r;
}

std::string command_of(const reference::MatmulArgmaxRequest& r) {
  const reference::MatmulArgmaxRequest d;
  const int layout = (r.trans_a ? 1 : 0) | (r.trans_b ? 2 : 0);
  return absl::StrCat(absl::StrFormat("matmul_argmax %dx%dx%d", r.m, r.n, r.k),
                      flag_text("dtype", r.dtype, d.dtype), flag_text("b-dtype", r.b_dtype, d.b_dtype),
                      flag_text("logits-dtype", r.logits_dtype, r.dtype), flag_text("math", kMaths, r.math),
                      flag_text("layout", kLayouts[layout], std::string("nt")), r.bias ? " --bias" : "",
                      r.packed ? " --packed" : "", indices_text(r));
}

lathe_matmul_argmax_desc descriptor(const reference::MatmulArgmaxRequest& r, lathe_tuning* tuning) {
  const reference::MatmulArgmaxSpecs specs = reference::specs_of(r);
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = r.m;
  desc.n = r.n;
  desc.k = r.k;
  desc.a = reference::describe(specs.a, nullptr);
  desc.b = reference::describe(specs.b, nullptr);
  desc.a.batch_stride = desc.b.batch_stride = 0;
  if (r.bias) {
    desc.bias = present();
    desc.bias_dtype = r.logits_dtype;
  }
  desc.logits_dtype = r.logits_dtype;
  desc.index_dtype = r.index_dtype;
  desc.index_offset = r.index_offset;
  if (r.values) desc.values = static_cast<float*>(present());
  desc.determinism = r.determinism;
  desc.math = r.math;
  desc.dependent_launch = r.dependent_launch;
  desc.next = chain_tuning(r.split_k, r.candidate, tuning);
  return desc;
}

OpRow matmul_argmax_op() {
  return {"matmul_argmax",
          "a matmul_argmax",
          "MxNxK",
          "every M up to the given one",
          matmul_argmax_flags,
          matmul_argmax_run_flags,
          [](const Arguments& arguments) { return as_any(matmul_argmax_request(arguments)); },
          {{"run", "4x32000x2048 --dtype bf16 --values"},
           {"bench", "4x32000x2048 --dtype bf16 --pool 1000"},
           {"explain", "16x128256x4096 --dtype bf16 --facts h200"},
           {"dump", "16x128256x4096 --dtype bf16 --facts h200 --stage kernel.ptx"},
           {"warm", "64x128256x4096 --dtype bf16 --facts h200 --cache-dir h200-cache"},
           {"tune", "4x32000x2048 --dtype bf16"}}};
}

}  // namespace lathe::cli
