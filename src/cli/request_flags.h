// Shared by the readers of all requests: from flags to values, and back to flags.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/command_line.h"
#include "reference/numbers.h"
#include "reference/op_request.h"

namespace lathe::cli {

// Parses a shape: "123x456x51234" gives {123, 456, 51234}. `pattern` ("MxNxK") has as many sizes. A size may be 0.
absl::StatusOr<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& pattern);

// In the order of lathe_determinism.
inline const std::vector<std::string> kDeterminisms = {"fast", "run_to_run", "batch_invariant"};
// In the order of lathe_math.
inline const std::vector<std::string> kMaths = {"strict", "tf32", "int8", "bf16"};
// In the order of lathe_dependent_launch.
inline const std::vector<std::string> kDependentLaunches = {"off", "on", "constant_b"};
// In the order of lathe_activation.
inline const std::vector<std::string> kActivations = {"none", "relu",         "gelu",          "gelu_tanh",
                                                      "silu", "silu_clamped", "clamp_plus_one"};
// The index has bit 0 set if A is transposed and bit 1 if B is.
inline const std::vector<std::string> kLayouts = {"nn", "tn", "nt", "tt"};

inline constexpr Flag kMisalign = {"misalign", "BYTES",
                                   "shift every operand by this many bytes (default: 0)"};
inline constexpr Flag kFill = {"fill", "normal|integers|special",
                               "numbers in the operands: random normal, small integers (exact sums), or "
                               "normal with some NaN and infinities (default: normal)"};
inline constexpr Flag kPadding = {"padding", "N",
                                  "unused elements after each row of every operand (default: 0)"};
inline constexpr Flag kPacked = {"packed", nullptr, "pack B with lathe_pack_weights first (CPU)"};
inline constexpr Flag kDeterminism = {"determinism", "fast|run_to_run|batch_invariant",
                                      "fast: no promise; run_to_run: every run gives the same bits; "
                                      "batch_invariant: bits do not depend on M (default: fast)"};
inline constexpr Flag kCandidate = {"candidate", "RANK",
                                    "force the candidate that has this rank in 'lathe explain', from 1 on"};

inline constexpr int32_t kMostSplits = 65535;  // the limit of lathe_tuning
inline constexpr Flag kSplitK = {"split-k", "N", "force the split-K factor"};
inline constexpr Flag kProductsSplitK = {"split-k", "N", "force the split-K factor of every matmul"};
inline constexpr Flag kMath = {
    "math", "strict|tf32|int8|bf16",
    "allowed rounding of f32: none, A and B to tf32, A to int8 (if B is in blocks), A "
    "to bf16 (if B is bf16) (default: strict)"};
inline constexpr Flag kDependentLaunch = {"dependent-launch", "off|on|constant_b",
                                          "on GPUs, let the kernel start before the previous one has ended; "
                                          "constant_b: and read B before that (default: off)"};
inline constexpr Flag kLayout = {
    "layout", "nt|nn|tn|tt",
    "layout of A, then of B: n row-major, t column-major; nt is that of PyTorch's Linear (default: nt)"};
inline constexpr Flag kIndexDtype = {"index-dtype", "i64|i32", "dtype of the indices (default: i64)"};
inline constexpr Flag kIndexOffset = {"index-offset", "N", "number to add to every index (default: 0)"};

// --b-dtype: the dtypes of B that may differ from A's.
Flag b_dtype_flag();

// A pointer that is not NULL, for operands of which only the presence matters. It is never read.
inline void* present() {
  static char byte;
  return &byte;
}

// The start of a descriptor's chain: `tuning`, filled, if the request sets one of its fields; else NULL.
inline const lathe_chain* chain_tuning(int32_t split_k, int32_t candidate, lathe_tuning* tuning) {
  if (split_k == 0 && candidate == 0) return nullptr;
  *tuning = LATHE_TUNING_INIT;
  tuning->split_k = split_k;
  tuning->candidate = candidate;
  return reinterpret_cast<const lathe_chain*>(tuning);
}

// These readers do not change *out if the flag is absent.
template <typename Enum>
absl::Status read_choice(const Arguments& arguments, const char* flag, const std::vector<std::string>& names,
                         Enum* out) {
  if (!arguments.has(flag)) return absl::OkStatus();
  auto name = arguments.choice(flag, names);
  if (!name.ok()) return name.status();
  *out = static_cast<Enum>(std::find(names.begin(), names.end(), *name) - names.begin());
  return absl::OkStatus();
}

inline absl::Status read_dtype(const Arguments& arguments, const char* flag,
                               const std::vector<std::string>& names, lathe_dtype* out) {
  if (!arguments.has(flag)) return absl::OkStatus();
  auto name = arguments.choice(flag, names);
  if (name.ok()) *out = reference::dtype_named(*name);
  return name.status();
}

template <typename Integer>
absl::Status read_integer(const Arguments& arguments, const char* flag, int64_t lowest, int64_t highest,
                          Integer* out) {
  auto value = arguments.integer(flag, static_cast<int64_t>(*out), lowest, highest);
  if (value.ok()) *out = static_cast<Integer>(*value);
  return value.status();
}

inline absl::Status first_error(std::initializer_list<absl::Status> all) {
  for (const absl::Status& s : all)
    if (!s.ok()) return s;
  return absl::OkStatus();
}

inline std::vector<Flag> joined(std::vector<Flag> flags, const std::vector<Flag>& more) {
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

// " --name value", or "" if the value is the default.
template <typename T>
std::string flag_text(const char* name, const T& value, const T& fallback) {
  return value == fallback ? "" : absl::StrCat(" --", name, " ", value);
}
inline std::string flag_text(const char* name, lathe_dtype value, lathe_dtype fallback) {
  return value == fallback ? "" : absl::StrCat(" --", name, " ", reference::name_of(value));
}
// The same for names[value]; the first name is the default.
inline std::string flag_text(const char* name, const std::vector<std::string>& names, int value) {
  return value == 0 ? "" : absl::StrCat(" --", name, " ", names[static_cast<size_t>(value)]);
}

// Read the fields of an OpRequest and an IndicesRequest from flags, and write them back as flags.
inline absl::Status read_op(const Arguments& arguments, reference::OpRequest* r) {
  return first_error({
      read_choice(arguments, "dependent-launch", kDependentLaunches, &r->dependent_launch),
      read_choice(arguments, "determinism", kDeterminisms, &r->determinism),
      read_integer(arguments, "padding", 0, INT32_MAX, &r->padding),
      read_integer(arguments, "split-k", 1, kMostSplits, &r->split_k),
      read_integer(arguments, "candidate", 1, 10000, &r->candidate),
      read_integer(arguments, "misalign", 0, 255, &r->misalign),
      read_choice(arguments, "fill", reference::fill_names(), &r->fill),
  });
}
inline absl::Status read_indices(const Arguments& arguments, reference::IndicesRequest* r) {
  r->values = arguments.has("values");
  return first_error({
      read_dtype(arguments, "index-dtype", {"i64", "i32"}, &r->index_dtype),
      read_integer(arguments, "index-offset", INT64_MIN, INT64_MAX, &r->index_offset),
      read_op(arguments, r),
  });
}
inline std::string op_text(const reference::OpRequest& r) {
  const reference::OpRequest d;
  return absl::StrCat(flag_text("determinism", kDeterminisms, r.determinism),
                      flag_text("padding", r.padding, d.padding),
                      flag_text("misalign", r.misalign, d.misalign),
                      flag_text("fill", reference::fill_names(), static_cast<int>(r.fill)),
                      flag_text("split-k", r.split_k, d.split_k),
                      flag_text("dependent-launch", kDependentLaunches, r.dependent_launch),
                      flag_text("candidate", r.candidate, d.candidate));
}
inline std::string indices_text(const reference::IndicesRequest& r) {
  const reference::IndicesRequest d;
  return absl::StrCat(flag_text("index-dtype", r.index_dtype, d.index_dtype),
                      flag_text("index-offset", r.index_offset, d.index_offset), r.values ? " --values" : "",
                      op_text(r));
}

}  // namespace lathe::cli
