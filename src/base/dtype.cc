#include "base/dtype.h"

namespace lathe {
namespace {

template <typename E>
struct Row {
  E value;
  absl::string_view name;
};
constexpr Row<Activation> kActivations[] = {{Activation::kNone, "none"},
                                            {Activation::kRelu, "relu"},
                                            {Activation::kGelu, "gelu"},
                                            {Activation::kGeluTanh, "gelu_tanh"},
                                            {Activation::kSilu, "silu"},
                                            {Activation::kSiluClamped, "silu_clamped"},
                                            {Activation::kClampPlusOne, "clamp_plus_one"}};
constexpr Row<Combine> kCombines[] = {{Combine::kAdd, "add"}, {Combine::kMultiply, "multiply"}};
constexpr Row<Determinism> kDeterminisms[] = {{Determinism::kFast, "fast"},
                                              {Determinism::kRunToRun, "run_to_run"},
                                              {Determinism::kBatchInvariant, "batch_invariant"}};
constexpr Row<Math> kMaths[] = {
    {Math::kStrict, "strict"}, {Math::kTf32, "tf32"}, {Math::kInt8, "int8"}, {Math::kBf16, "bf16"}};

template <typename E, size_t N>
absl::string_view find_name(const Row<E> (&rows)[N], E value) {
  for (const Row<E>& row : rows)
    if (row.value == value) return row.name;
  return "unknown";
}
template <typename E, size_t N>
bool find_value(const Row<E> (&rows)[N], absl::string_view name, E* out) {
  for (const Row<E>& row : rows)
    if (row.name == name) return *out = row.value, true;
  return false;
}

}  // namespace

absl::string_view name_of(DType t) { return has_row(t) ? kDTypes[static_cast<size_t>(t)].name : "unknown"; }
absl::string_view name_of(Activation a) { return find_name(kActivations, a); }
absl::string_view name_of(Combine c) { return find_name(kCombines, c); }
absl::string_view name_of(Determinism d) { return find_name(kDeterminisms, d); }
absl::string_view name_of(Math m) { return find_name(kMaths, m); }
bool parse(absl::string_view name, DType* out) {
  for (const DTypeRow& row : kDTypes)
    if (row.name == name) return *out = row.value, true;
  return false;
}
bool parse(absl::string_view name, Activation* out) { return find_value(kActivations, name, out); }
bool parse(absl::string_view name, Combine* out) { return find_value(kCombines, name, out); }
bool parse(absl::string_view name, Determinism* out) { return find_value(kDeterminisms, name, out); }
bool parse(absl::string_view name, Math* out) { return find_value(kMaths, name, out); }

}  // namespace lathe
