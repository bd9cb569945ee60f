#include "base/dtype.h"

#include <iterator>

namespace lathe {
namespace {

template <typename E>
struct Row {
  E value;
  absl::string_view name;
};
constexpr Row<DType> kDTypes[] = {{DType::kNone, "none"},
                                  {DType::kF32, "f32"},
                                  {DType::kF16, "f16"},
                                  {DType::kBF16, "bf16"},
                                  {DType::kI32, "i32"},
                                  {DType::kI64, "i64"},
                                  {DType::kI8, "i8"},
                                  {DType::kF8E4M3, "f8e4m3"},
                                  {DType::kF8E5M2, "f8e5m2"},
                                  {DType::kF8E4M3Fnuz, "f8e4m3fnuz"},
                                  {DType::kF8E5M2Fnuz, "f8e5m2fnuz"},
                                  {DType::kQ4_0, "q4_0"}};
constexpr Row<Activation> kActivations[] = {{Activation::kNone, "none"},
                                            {Activation::kRelu, "relu"},
                                            {Activation::kGelu, "gelu"},
                                            {Activation::kGeluTanh, "gelu_tanh"},
                                            {Activation::kSilu, "silu"}};
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

absl::string_view name_of(DType t) { return find_name(kDTypes, t); }
absl::string_view name_of(Activation a) { return find_name(kActivations, a); }
absl::string_view name_of(Determinism d) { return find_name(kDeterminisms, d); }
absl::string_view name_of(Math m) { return find_name(kMaths, m); }
bool parse(absl::string_view name, DType* out) { return find_value(kDTypes, name, out); }
bool parse(absl::string_view name, Activation* out) { return find_value(kActivations, name, out); }
bool parse(absl::string_view name, Determinism* out) { return find_value(kDeterminisms, name, out); }
bool parse(absl::string_view name, Math* out) { return find_value(kMaths, name, out); }

}  // namespace lathe
