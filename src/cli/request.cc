#include "cli/request.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/numbers.h"

namespace lathe::cli {
namespace {

// In the order of lathe_activation and lathe_determinism.
const std::vector<std::string> kActivations = {"none", "relu", "gelu", "gelu_tanh", "silu"};
const std::vector<std::string> kDeterminisms = {"fast", "run_to_run", "batch_invariant"};

constexpr char kEpilogueForm[] = "alpha=X,beta=X,bias,relu|gelu|gelu_tanh|silu,residual";

// Something that is not NULL and is never read.
void* present() {
  static char byte;
  return &byte;
}

absl::Status parse_epilogue(const std::string& text, MatmulRequest* r) {
  for (absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::string word(part);
    const auto activation = std::find(kActivations.begin(), kActivations.end(), word);
    if (word.rfind("alpha=", 0) == 0 && absl::SimpleAtof(word.substr(6), &r->alpha)) continue;
    if (word.rfind("beta=", 0) == 0 && absl::SimpleAtof(word.substr(5), &r->beta)) continue;
    if (word == "bias") {
      r->bias = true;
    } else if (word == "residual") {
      r->residual = true;
    } else if (activation != kActivations.end()) {
      r->activation = static_cast<lathe_activation>(activation - kActivations.begin());
    } else {
      const std::string name = nearest(word, {"bias", "residual", "relu", "gelu", "gelu_tanh", "silu"});
      return absl::InvalidArgumentError(
          absl::StrCat("--epilogue takes a list like ", kEpilogueForm, ", not '", word, "'",
                       name.empty() ? "" : absl::StrCat("; did you mean '", name, "'?")));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& form) {
  const size_t wanted = std::count(form.begin(), form.end(), 'x') + 1;
  const std::string example = wanted == 3 ? "123x456x51234" : "4x151936";
  std::vector<int64_t> sizes;
  for (absl::string_view part : absl::StrSplit(text, 'x')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 0) {
      return absl::InvalidArgumentError(absl::StrCat("bad shape '", text, "': expected ", form, ", as ",
                                                     example, "; '", part,
                                                     "' is not a whole number of 0 or more"));
    }
    sizes.push_back(size);
  }
  if (sizes.size() != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("bad shape '", text, "': expected ", form, ", as ",
                                                   example, "; this has ", sizes.size(), " sizes"));
  }
  return sizes;
}

std::vector<Flag> matmul_flags(const std::vector<Flag>& more) {
  std::vector<Flag> flags = {
      {"dtype", "f32|f16|bf16", "of A and B (default: f32)"},
      {"out-dtype", "f32|f16|bf16", "of C, D, bias and residual (default: that of A and B)"},
      {"layout", "nt|nn|tn|tt",
       "A then B, n as they are, t transposed; nt is a Linear layer's (default: nt)"},
      {"batch", "N", "matmuls in the batch (default: 1)"},
      {"epilogue", "LIST", "alpha=X,beta=X,bias,relu|gelu|gelu_tanh|silu,residual"},
      {"determinism", "D", "fast|run_to_run|batch_invariant (default: fast)"},
      {"split-k", "N", "force the split-K factor"},
      {"candidate", "RANK", "force the candidate of that rank, as 'lathe explain' counts them from 1"},
  };
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

absl::StatusOr<MatmulRequest> matmul_request(const Arguments& arguments) {
  MatmulRequest r;
  auto dtype = arguments.choice("dtype", float_names());
  if (!dtype.ok()) return dtype.status();
  r.dtype = r.out_dtype = float_dtype(*dtype);
  if (arguments.has("out-dtype")) {
    auto out = arguments.choice("out-dtype", float_names());
    if (!out.ok()) return out.status();
    r.out_dtype = float_dtype(*out);
  }
  auto layout = arguments.choice("layout", {"nt", "nn", "tn", "tt"});
  if (!layout.ok()) return layout.status();
  r.trans_a = (*layout)[0] == 't';
  r.trans_b = (*layout)[1] == 't';
  if (absl::Status s = parse_epilogue(arguments.text("epilogue", ""), &r); !s.ok()) return s;
  auto determinism = arguments.choice("determinism", kDeterminisms);
  if (!determinism.ok()) return determinism.status();
  r.determinism = static_cast<lathe_determinism>(
      std::find(kDeterminisms.begin(), kDeterminisms.end(), *determinism) - kDeterminisms.begin());
  auto batch = arguments.integer("batch", 1, 0, INT32_MAX);
  auto split_k = arguments.integer("split-k", 0, 1, 65535);
  auto candidate = arguments.integer("candidate", 0, 1, 10000);
  for (const auto* number : {&batch, &split_k, &candidate}) {
    if (!number->ok()) return number->status();
  }
  r.batch = *batch;
  r.split_k = static_cast<int32_t>(*split_k);
  r.candidate = static_cast<int32_t>(*candidate);
  return r;
}

absl::StatusOr<MatmulRequest> matmul_request_with_shape(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "MxNxK");
  if (!shape.ok()) return shape.status();
  auto r = matmul_request(arguments);
  if (!r.ok()) return r.status();
  r->m = (*shape)[0];
  r->n = (*shape)[1];
  r->k = (*shape)[2];
  return r;
}

lathe_matmul_desc descriptor(const MatmulRequest& r, lathe_tuning* tuning) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = r.m;
  desc.n = r.n;
  desc.k = r.k;
  desc.batch = r.batch;
  desc.a.dtype = desc.b.dtype = r.dtype;
  desc.a.layout = r.trans_a ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.b.layout = r.trans_b ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  desc.c.dtype = desc.d.dtype = r.out_dtype;
  desc.a.batch_stride = r.m * r.k;
  desc.b.batch_stride = r.k * r.n;
  desc.c.batch_stride = desc.d.batch_stride = r.m * r.n;
  desc.epilogue.alpha = r.alpha;
  desc.epilogue.beta = r.beta;
  desc.epilogue.activation = r.activation;
  if (r.bias) {
    desc.epilogue.bias = present();
    desc.epilogue.bias_dtype = r.out_dtype;
  }
  if (r.residual) {
    desc.epilogue.residual.data = present();
    desc.epilogue.residual.dtype = r.out_dtype;
    desc.epilogue.residual.batch_stride = r.m * r.n;
  }
  desc.determinism = r.determinism;
  if (r.split_k || r.candidate) {
    *tuning = LATHE_TUNING_INIT;
    tuning->split_k = r.split_k;
    tuning->candidate = r.candidate;
    desc.next = reinterpret_cast<const lathe_chain*>(tuning);
  }
  return desc;
}

std::vector<Flag> argmax_flags(const std::vector<Flag>& more) {
  std::vector<Flag> flags = {
      {"dtype", "f32|f16|bf16", "of the rows (default: f32)"},
      {"index-dtype", "i64|i32", "of the indices (default: i64)"},
      {"values", nullptr, "ask for the maxima too"},
  };
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

absl::StatusOr<ArgmaxRequest> argmax_request(const Arguments& arguments) {
  auto shape = parse_shape(arguments.words[0], "ROWSxN");
  auto dtype = arguments.choice("dtype", float_names());
  auto index = arguments.choice("index-dtype", {"i64", "i32"});
  if (!shape.ok()) return shape.status();
  if (!dtype.ok()) return dtype.status();
  if (!index.ok()) return index.status();
  ArgmaxRequest r;
  r.rows = (*shape)[0];
  r.n = (*shape)[1];
  r.dtype = float_dtype(*dtype);
  r.index_dtype = *index == "i32" ? LATHE_I32 : LATHE_I64;
  r.values = arguments.has("values");
  return r;
}

lathe_argmax_desc descriptor(const ArgmaxRequest& r) {
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = r.rows;
  desc.n = r.n;
  desc.x.dtype = r.dtype;
  desc.index_dtype = r.index_dtype;
  if (r.values) desc.values = static_cast<float*>(present());
  return desc;
}

}  // namespace lathe::cli
