// Element types and the other small enums of a request, with their names. One row registers each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

// The values equal those of lathe_dtype.
enum class DType : int32_t {
  kNone = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kI32 = 4,
  kI64 = 5,
  kI8 = 6,
  kF8E4M3 = 7,
  kF8E5M2 = 8,
  kF8E4M3Fnuz = 9,
  kF8E5M2Fnuz = 10,
  kQ4_0 = 11
};

// Bytes of one element, or of one block for a block format.
constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI64: return 8;
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF8E4M3Fnuz:
    case DType::kF8E5M2Fnuz: return 1;
    case DType::kQ4_0: return 18;
    case DType::kNone: return 0;
  }
  return 0;
}
constexpr bool is_float(DType t) { return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16; }

// The 8-bit float formats. OCP's e4m3 has no infinity. The FNUZ formats have no infinity, one NaN (0x80), and
// an exponent bias that is one higher.
constexpr bool is_fnuz(DType t) { return t == DType::kF8E4M3Fnuz || t == DType::kF8E5M2Fnuz; }
constexpr bool is_f8(DType t) { return t == DType::kF8E4M3 || t == DType::kF8E5M2 || is_fnuz(t); }

// Block formats store elements in blocks along K, each block with its own scale. A Q4_0 block holds one f16
// scale, then 32 numbers of 4 bits, which start at byte kQ4Numbers.
constexpr int64_t block_elements(DType t) { return t == DType::kQ4_0 ? 32 : 1; }
constexpr bool is_blocks(DType t) { return block_elements(t) > 1; }
constexpr int64_t kQ4Elements = block_elements(DType::kQ4_0), kQ4Numbers = 2;
constexpr double bytes_per_element(DType t) {
  return static_cast<double>(size_of(t)) / static_cast<double>(block_elements(t));
}

// The values equal those of lathe_activation, lathe_determinism and lathe_math.
enum class Activation : int32_t { kNone = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3, kSilu = 4 };
enum class Determinism : int32_t { kFast = 0, kRunToRun = 1, kBatchInvariant = 2 };
enum class Math : int32_t { kStrict = 0, kTf32 = 1, kInt8 = 2, kBf16 = 3 };

// The names are those in dtype.cc, for example "f32" or "gelu_tanh"; name_of returns "unknown" for any other
// value. The parsers return false on an unknown name and leave *out unchanged.
absl::string_view name_of(DType t);
absl::string_view name_of(Activation a);
absl::string_view name_of(Determinism d);
absl::string_view name_of(Math m);
bool parse(absl::string_view name, DType* out);
bool parse(absl::string_view name, Activation* out);
bool parse(absl::string_view name, Determinism* out);
bool parse(absl::string_view name, Math* out);

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace lathe
