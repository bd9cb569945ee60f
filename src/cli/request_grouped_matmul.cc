// Reads a grouped_matmul request from flags, and makes its descriptor.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/ops.h"
#include "cli/request_flags.h"
#include "cli/request_matmul.h"
#include "cli/scaled_operands.h"

namespace lathe::cli {
namespace {

using reference::GroupedMatmulRequest;

// In the order of lathe_grouping, lathe_gate and lathe_gate_layout.
const std::vector<std::string> kGroupings = {"offsets", "row_ids", "counts", "indexed"};
const std::vector<std::string> kGates = {"none", "silu", "gelu", "gelu_tanh", "relu", "clamped"};
const std::vector<std::string> kGateLayouts = {"halves", "interleaved"};
// The value is the request's `even`.
const std::vector<std::string> kRoutings = {"random", "even"};

// The request without flags: experts as in Mixtral, where the slots of a token share its row.
GroupedMatmulRequest default_request() {
  GroupedMatmulRequest r;
  r.grouping = LATHE_GROUPING_INDEXED;
  r.groups = 8;
  r.used = 2;
  r.shared_rows = true;
  r.even = true;
  return r;
}

std::vector<Flag> grouped_matmul_flags(const std::vector<Flag>& more) {
  return joined(
      {{"grouping", "offsets|row_ids|counts|indexed",
        "which rows an expert has: M rows divided by offsets or by an id per row, up to M rows for each "
        "expert, or M "
        "tokens that use some experts each (default: indexed)"},
       {"experts", "N", "number of experts (default: 8)"},
       {"used", "N", "indexed: experts that a token uses (default: 2)"},
       {"own-rows", nullptr, "indexed: each slot of a token has a row of A of its own"},
       {"sum", nullptr, "indexed: sum the rows of a token, times router weights"},
       {"gate", "none|silu|gelu|gelu_tanh|relu|clamped",
        "B is two weights, and D has N / 2 columns: gate(g) * u (default: none)"},
       {"gate-layout", "halves|interleaved", "columns of g and u in B (default: halves)"},
       {"dtype", "f32|f16|bf16|i8", "dtype of A and B (default: f32)"},
       b_dtype_flag(),
       a_format_flag(),
       b_format_flag(),
       {"out-dtype", "f32|f16|bf16|i32", "dtype of D and the bias (default: that of A; f32 if A is i8)"},
       kMath,
       {"layout", "nt|nn", "layout of A, then of B: n row-major, t column-major (default: nt)"},
       {"bias", nullptr, "add a bias to each column, one for each expert"},
       {"activation", "none|relu|gelu|gelu_tanh|silu", "activation of D (default: none)"},
       kDeterminism,
       kPadding,
       {"packed", nullptr, "pack B with lathe_pack_weights first (CPU)"}},
      more);
}

std::vector<Flag> grouped_matmul_run_flags(const std::vector<Flag>& more) {
  return grouped_matmul_flags(joined(
      {{"routing", "even|random",
        "even: every row is used, and experts have about as many rows; random: some experts get most rows, "
        "some none, and some rows are padding (default: even)"},
       kMisalign,
       kFill},
      more));
}

absl::Status read_indexed(const Arguments& arguments, GroupedMatmulRequest* r) {
  if (r->grouping == LATHE_GROUPING_INDEXED) {
    r->shared_rows = !arguments.has("own-rows");
    r->summed = arguments.has("sum");
    return read_integer(arguments, "used", 1, INT32_MAX, &r->used);
  }
  for (const char* flag : {"used", "own-rows", "sum"})
    if (arguments.has(flag))
      return absl::InvalidArgumentError(absl::StrCat("--", flag, " needs --grouping indexed"));
  r->used = 1;
  r->shared_rows = false;
  return absl::OkStatus();
}

absl::Status check_combination(const GroupedMatmulRequest& r) {
  if (r.fill == reference::Fill::kSpecial && (r.summed || r.gate != LATHE_GATE_NONE))
    return absl::InvalidArgumentError("--fill special does not go with --sum and --gate");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GroupedMatmulRequest> grouped_matmul_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "MxNxK");
  if (!shape.ok()) return shape.status();
  GroupedMatmulRequest r = default_request();
  r.m = (*shape)[0];
  r.n = (*shape)[1];
  r.k = (*shape)[2];
  if (absl::Status s = read_dtype(arguments, "dtype", reference::factor_names(), &r.dtype); !s.ok()) return s;
  r.out_dtype = reference::default_result(r.dtype);
  if (absl::Status s = read_dtype(arguments, "b-dtype", reference::weight_names(), &r.b_dtype); !s.ok())
    return s;
  if (r.b_dtype == r.dtype) r.b_dtype = LATHE_DTYPE_NONE;
  int layout = 0;
  OperandFormats formats;
  const absl::Status s = first_error({
      read_choice(arguments, "grouping", kGroupings, &r.grouping),
      read_integer(arguments, "experts", 1, INT32_MAX, &r.groups),
      read_indexed(arguments, &r),
      read_choice(arguments, "gate", kGates, &r.gate),
      read_choice(arguments, "gate-layout", kGateLayouts, &r.gate_layout),
      read_dtype(arguments, "out-dtype", reference::result_names(), &r.out_dtype),
      read_choice(arguments, "math", kMaths, &r.math),
      read_choice(arguments, "layout", {"nt", "nn"}, &layout),
      read_choice(arguments, "activation", kActivations, &r.activation),
      read_choice(arguments, "routing", kRoutings, &r.even),
      read_op(arguments, &r),
      read_formats(arguments, {"b-dtype", "layout", "packed", "padding", "misalign"}, r.dtype, &r.b_dtype,
                   &formats),
  });
  if (!s.ok()) return s;
  r.a_format = formats.a;
  r.b_format = formats.b;
  r.trans_b = layout == 0;
  r.bias = arguments.has("bias");
  r.packed = arguments.has("packed");
  if (absl::Status c = check_combination(r); !c.ok()) return c;
  return r;
}

std::string command_of(const GroupedMatmulRequest& r) {
  const GroupedMatmulRequest d = default_request();
  const bool indexed = r.grouping == LATHE_GROUPING_INDEXED;
  return absl::StrCat(
      absl::StrFormat("grouped_matmul %dx%dx%d", r.m, r.n, r.k),
      indexed ? "" : absl::StrCat(" --grouping ", kGroupings[r.grouping]),
      flag_text("experts", r.groups, d.groups), indexed ? flag_text("used", r.used, d.used) : "",
      indexed && !r.shared_rows ? " --own-rows" : "", r.summed ? " --sum" : "",
      flag_text("gate", kGates, r.gate), flag_text("gate-layout", kGateLayouts, r.gate_layout),
      flag_text("dtype", r.dtype, d.dtype),
      r.b_format.empty() ? flag_text("b-dtype", r.b_dtype, d.b_dtype) : "",
      flag_text("a-format", r.a_format, d.a_format), flag_text("b-format", r.b_format, d.b_format),
      flag_text("out-dtype", r.out_dtype, reference::default_result(r.dtype)),
      flag_text("math", kMaths, r.math), r.trans_b ? "" : " --layout nn", r.bias ? " --bias" : "",
      flag_text("activation", kActivations, r.activation), r.packed ? " --packed" : "",
      r.even ? "" : " --routing random", op_text(r));
}

lathe_grouped_matmul_desc descriptor(const GroupedMatmulRequest& r, lathe_tuning*) {
  const reference::GroupedMatmulSpecs specs = reference::specs_of(r);
  lathe_grouped_matmul_desc desc = LATHE_GROUPED_MATMUL_DESC_INIT;
  desc.m = r.m;
  desc.n = r.n;
  desc.k = r.k;
  desc.groups = r.groups;
  desc.used = r.used;
  desc.grouping = r.grouping;
  desc.gate = r.gate;
  desc.gate_layout = r.gate_layout;
  if (r.summed) desc.router_weights = static_cast<const float*>(present());
  desc.a = reference::describe(specs.a, nullptr);
  desc.b = reference::describe(specs.b, nullptr);
  desc.d = reference::describe(specs.d, nullptr);
  if (r.shared_rows) desc.a.batch_stride = 0;
  desc.epilogue.alpha = r.alpha;
  desc.epilogue.activation = r.activation;
  if (r.bias) {
    desc.epilogue.bias = present();
    desc.epilogue.bias_dtype = specs.bias.dtype;
  }
  desc.determinism = r.determinism;
  desc.math = r.math;
  describe_formats({r.a_format, r.b_format}, &desc.a, &desc.b);
  return desc;
}

OpRow grouped_matmul_op() {
  return {"grouped_matmul",
          "a grouped_matmul",
          "MxNxK",
          "every number of rows of an expert up to M",
          grouped_matmul_flags,
          grouped_matmul_run_flags,
          [](const Arguments& arguments) { return as_any(grouped_matmul_request(arguments)); },
          {{"run", "512x1536x2048 --dtype bf16 --experts 128 --used 8 --gate silu"},
           {"run", "8x2048x768 --dtype bf16 --b-dtype q4_k --experts 128 --used 8 --own-rows --sum"},
           {"run", "64x256x512 --grouping offsets --routing random"},
           {"bench", "1x1536x2048 --dtype bf16 --experts 128 --used 8"},
           {"explain", "64x1536x2048 --dtype bf16 --experts 128 --used 8 --facts h200"},
           {"dump", "64x1536x2048 --dtype bf16 --experts 128 --used 8 --facts h200 --stage kernel.ptx"},
           {"warm", "64x1536x2048 --dtype bf16 --experts 128 --used 8"},
           {"tune", "1x1536x2048 --dtype bf16 --experts 128 --used 8"}}};
}

}  // namespace lathe::cli
