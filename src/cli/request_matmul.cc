#include "cli/request_matmul.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/ops.h"
#include "cli/request_flags.h"
#include "cli/scaled_operands.h"

namespace lathe::cli {
namespace {

const std::vector<std::string> kInPlace = {"none", "c", "residual"};
const std::vector<std::string> kBroadcasts = {"none", "a", "b", "ab"};

constexpr char kEpilogueSyntax[] = "alpha=X,beta=X,bias,relu|gelu|gelu_tanh|silu,residual|multiply";

absl::Status parse_epilogue(const std::string& text, reference::MatmulRequest* r) {
  std::set<std::string> kinds;
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::string word(part);
    const auto activation = std::find(kActivations.begin(), kActivations.end(), word);
    const std::string kind = activation != kActivations.end() ? "activation" : word.substr(0, word.find('='));
    if (!kinds.insert(kind).second)
      return absl::InvalidArgumentError(absl::StrCat("--epilogue ", text, " has more than one ", kind));
    if (word.rfind("alpha=", 0) == 0 && absl::SimpleAtof(word.substr(6), &r->alpha)) continue;
    if (word.rfind("beta=", 0) == 0 && absl::SimpleAtof(word.substr(5), &r->beta)) continue;
    if (word == "bias") {
      r->bias = true;
    } else if (word == "residual" || word == "multiply") {
      if (r->residual)
        return absl::InvalidArgumentError(
            absl::StrCat("--epilogue ", text, ": residual and multiply are the same operand; name one"));
      r->residual = true;
      r->multiply = word == "multiply";
    } else if (activation != kActivations.end()) {
      r->activation = static_cast<lathe_activation>(activation - kActivations.begin());
    } else {
      const std::string name =
          nearest(word, {"bias", "residual", "multiply", "relu", "gelu", "gelu_tanh", "silu"});
      return absl::InvalidArgumentError(
          absl::StrCat("--epilogue takes a list like ", kEpilogueSyntax, ", not '", word, "'",
                       name.empty() ? "" : absl::StrCat("; did you mean '", name, "'?")));
    }
  }
  return absl::OkStatus();
}

// The epilogue in the syntax that parse_epilogue reads.
std::string epilogue_text(const reference::MatmulRequest& r) {
  std::vector<std::string> parts;
  if (r.alpha != 1) parts.push_back(absl::StrFormat("alpha=%.9g", r.alpha));
  if (r.beta != 0) parts.push_back(absl::StrFormat("beta=%.9g", r.beta));
  if (r.bias) parts.push_back("bias");
  if (r.activation != LATHE_ACTIVATION_NONE) parts.push_back(kActivations[r.activation]);
  if (r.residual) parts.push_back(r.multiply ? "multiply" : "residual");
  return absl::StrJoin(parts, ",");
}

absl::Status read_places(const Arguments& arguments, reference::MatmulRequest* r) {
  int in_place = 0, broadcast = 0;
  const absl::Status s = first_error({read_choice(arguments, "in-place", kInPlace, &in_place),
                                      read_choice(arguments, "broadcast", kBroadcasts, &broadcast)});
  if (!s.ok()) return s;
  r->c_in_place = in_place == 1;
  r->residual_in_place = in_place == 2;
  r->broadcast_a = broadcast & 1;
  r->broadcast_b = broadcast & 2;
  if (r->c_in_place && r->beta == 0)
    return absl::InvalidArgumentError(
        "--in-place c needs a beta in --epilogue, because C is not read without one");
  if (r->residual_in_place && !r->residual)
    return absl::InvalidArgumentError("--in-place residual needs residual in --epilogue");
  return absl::OkStatus();
}

}  // namespace

std::vector<Flag> matmul_flags(const std::vector<Flag>& more) {
  return joined(
      {
          {"dtype", "f32|f16|bf16|i8|f8e4m3|f8e5m2|f8e4m3fnuz|f8e5m2fnuz", "dtype of A and B (default: f32)"},
          b_dtype_flag(),
          a_format_flag(),
          b_format_flag(),
          {"out-dtype", "f32|f16|bf16|i32",
           "dtype of C, D, bias and residual (default: that of A; f32 if A is i8 or fp8)"},
          kMath,
          kLayout,
          {"batch", "N", "number of matmuls in the batch (default: 1)"},
          {"epilogue", "LIST",
           "comma-separated: alpha=X, beta=X, bias, residual, multiply (a residual that D is multiplied by), "
           "and one of relu, "
           "gelu, gelu_tanh, silu, silu_clamped, clamp_plus_one"},
          kDeterminism,
          kDependentLaunch,
          kPadding,
          kPacked,
          kSplitK,
          kCandidate,
      },
      more);
}

absl::StatusOr<reference::MatmulRequest> matmul_weight_request(const Arguments& arguments) {
  reference::MatmulRequest r;
  if (absl::Status s = read_dtype(arguments, "dtype", reference::factor_names(), &r.dtype); !s.ok()) return s;
  r.out_dtype = reference::default_result(r.dtype);
  if (absl::Status s = read_dtype(arguments, "b-dtype", reference::weight_names(), &r.b_dtype); !s.ok())
    return s;
  if (r.b_dtype == r.dtype) r.b_dtype = LATHE_DTYPE_NONE;
  int layout = 2;
  absl::Status s = first_error({
      read_dtype(arguments, "out-dtype", reference::result_names(), &r.out_dtype),
      read_choice(arguments, "math", kMaths, &r.math),
      read_choice(arguments, "layout", kLayouts, &layout),
      parse_epilogue(arguments.text("epilogue", ""), &r),
      read_integer(arguments, "batch", 0, INT32_MAX, &r.batch),
      read_op(arguments, &r),
  });
  if (s.ok()) s = read_places(arguments, &r);
  OperandFormats formats;
  if (s.ok())
    s = read_formats(arguments, {"b-dtype", "layout", "packed", "padding", "misalign", "broadcast"}, r.dtype,
                     &r.b_dtype, &formats);
  if (!s.ok()) return s;
  r.a_format = formats.a;
  r.b_format = formats.b;
  r.trans_a = layout & 1;
  r.trans_b = layout & 2;
  r.packed = arguments.has("packed");
  return r;
}

absl::StatusOr<reference::MatmulRequest> matmul_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "MxNxK");
  if (!shape.ok()) return shape.status();
  auto r = matmul_weight_request(arguments);
  if (!r.ok()) return r.status();
  r->m = (*shape)[0];
  r->n = (*shape)[1];
  r->k = (*shape)[2];
  return r;
}

std::string command_of(const reference::MatmulRequest& r) {
  const reference::MatmulRequest d;
  const int layout = (r.trans_a ? 1 : 0) | (r.trans_b ? 2 : 0);
  const int broadcast = (r.broadcast_a ? 1 : 0) | (r.broadcast_b ? 2 : 0);
  return absl::StrCat(
      absl::StrFormat("matmul %dx%dx%d", r.m, r.n, r.k), flag_text("dtype", r.dtype, d.dtype),
      r.b_format.empty() ? flag_text("b-dtype", r.b_dtype, d.b_dtype) : "",
      flag_text("a-format", r.a_format, d.a_format), flag_text("b-format", r.b_format, d.b_format),
      flag_text("out-dtype", r.out_dtype, reference::default_result(r.dtype)),
      flag_text("math", kMaths, r.math), flag_text("layout", kLayouts[layout], std::string("nt")),
      flag_text("batch", r.batch, d.batch), flag_text("epilogue", epilogue_text(r), std::string()),
      r.packed ? " --packed" : "",
      flag_text("in-place", kInPlace,
                r.c_in_place          ? 1
                : r.residual_in_place ? 2
                                      : 0),
      flag_text("broadcast", kBroadcasts, broadcast), op_text(r));
}

lathe_matmul_desc descriptor(const reference::MatmulRequest& r, lathe_tuning* tuning) {
  const reference::MatmulSpecs specs = reference::specs_of(r);
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = r.m;
  desc.n = r.n;
  desc.k = r.k;
  desc.batch = r.batch;
  desc.a = reference::describe(specs.a, nullptr);
  desc.b = reference::describe(specs.b, nullptr);
  desc.c = reference::describe(specs.c, nullptr);
  desc.d = reference::describe(specs.d, nullptr);
  desc.epilogue.alpha = r.alpha;
  desc.epilogue.beta = r.beta;
  desc.epilogue.activation = r.activation;
  if (r.multiply) desc.epilogue.combine = LATHE_COMBINE_MULTIPLY;
  if (r.bias) {
    desc.epilogue.bias = present();
    desc.epilogue.bias_dtype = r.out_dtype;
  }
  if (r.residual) desc.epilogue.residual = reference::describe(specs.residual, present());
  desc.determinism = r.determinism;
  desc.math = r.math;
  desc.dependent_launch = r.dependent_launch;
  desc.next = chain_tuning(r.split_k, r.candidate, tuning);
  describe_formats({r.a_format, r.b_format}, &desc.a, &desc.b);
  return desc;
}

static std::vector<Flag> matmul_run_flags(const std::vector<Flag>& more) {
  return matmul_flags(
      joined({kMisalign,
              {"in-place", "c|residual", "use the memory of D for this operand of the epilogue"},
              {"broadcast", "a|b|ab", "operands that have one matrix for the whole batch"},
              kFill},
             more));
}

OpRow matmul_op() {
  return {"matmul",
          "a matmul",
          "MxNxK",
          "every M up to the given one",
          matmul_flags,
          matmul_run_flags,
          [](const Arguments& arguments) { return as_any(matmul_request(arguments)); },
          {{"run", "123x456x51234 --dtype f32"},
           {"run", "64x4096x4096 --dtype bf16 --epilogue bias,gelu,residual --device cuda:0"},
           {"bench", "4x4096x4096 --dtype bf16"},
           {"bench", "512x4096x4096 --device cuda:0"},
           {"run", "16x4096x7168 --a-format f8_128 --b-format f8_128"},
           {"explain", "1x28672x4096 --dtype bf16"},
           {"explain", "64x4096x4096 --dtype f16 --facts h200 --target sm_90a"},
           {"dump", "16x4096x4096 --output /tmp/ir"},
           {"dump", "64x4096x4096 --dtype f16 --facts h200 --stage kernel.ptx"},
           {"warm", "64x4096x4096 --dtype bf16"},
           {"tune", "1x28672x4096 --dtype bf16"}}};
}

}  // namespace lathe::cli
