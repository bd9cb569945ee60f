// Element types and the other small enums of a request, with their names. One row registers each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace lathe {

// The values up to kU4x128 equal those of lathe_dtype. The others are only in classes of kernels: B in blocks whose
// scales are apart (core/block_scaled.h).
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
  kQ4_0 = 11,
  kQ8_0 = 12,
  kQ4_1 = 13,
  kQ5_0 = 14,
  kQ5_1 = 15,
  kQ4_K = 16,
  kQ5_K = 17,
  kQ6_K = 18,
  kIQ4_NL = 19,
  kIQ4_XS = 20,
  kMXFP4 = 21,
  kF4E2M1 = 22,
  kF8E8M0 = 23,
  kU4Awq = 24,
  kU4Gptq = 25,
  kU4GptqV2 = 26,
  kU4x128 = 27,
  kF8E4M3x128 = 28,
  kMXF8E4M3 = 29,
  kMXF8E5M2 = 30,
  kMXF4E2M1 = 31,
  kNVF4E2M1 = 32
};

// kF8: the 8-bit float formats. OCP's e4m3 has no infinity. The FNUZ formats (kF8Fnuz) have no infinity, one
// NaN (0x80), and an exponent bias that is one higher.
// kStored: scales, and elements that no kernel multiplies as they are.
// kBlocks, kGroups: elements are stored in blocks along K, each block with its own scales. kBlocks are the formats of
// GGUF files, which may be multiplied as bytes and be packed; kGroups are decoded to f32.
enum class DTypeKind : int8_t { kNone, kFloat, kInteger, kF8, kF8Fnuz, kStored, kBlocks, kGroups };

// The properties of a dtype. Everything that depends on one dtype alone reads its row; what depends on the
// dtypes of A and B together is in core/products.h.
struct DTypeRow {
  DType value;
  const char* name;
  DTypeKind kind;
  int16_t bytes;            // of one element, or of one block
  int16_t packed_word = 0;  // elements of K in a word of a packed weight (core/packed.h); 0: cannot be packed
  int16_t elements = 1;     // of one block
  // Block formats: the byte offset and number of the block's f16 scales. No f16 scale: its first byte is a power of two.
  int16_t scales_at = 0, scales = 0;
  // Block formats: cycles of a CPU to decode a vector to f32, with its share of decoding the scales; and to transpose
  // and decode 32 elements of 16 columns for products of bytes (Math::kInt8).
  float decode_cycles = 0, decode_bytes_cycles = 0;
  int16_t codes_at = 0;  // block formats: the byte offset of the codes
  int16_t apart =
      0;  // kGroups: bytes of a block's scales, if they are an array of their own, parallel to the blocks
};

// Ordered by value. A new block format needs a row here; "To add a block format" in core/README.md names the
// other files.
inline constexpr DTypeRow kDTypes[] = {
    {DType::kNone, "none", DTypeKind::kNone, 0},
    {DType::kF32, "f32", DTypeKind::kFloat, 4, 1},
    {DType::kF16, "f16", DTypeKind::kFloat, 2, 1},
    {DType::kBF16, "bf16", DTypeKind::kFloat, 2, 2},
    {DType::kI32, "i32", DTypeKind::kInteger, 4},
    {DType::kI64, "i64", DTypeKind::kInteger, 8},
    {DType::kI8, "i8", DTypeKind::kInteger, 1, 4},
    {DType::kF8E4M3, "f8e4m3", DTypeKind::kF8, 1},
    {DType::kF8E5M2, "f8e5m2", DTypeKind::kF8, 1},
    {DType::kF8E4M3Fnuz, "f8e4m3fnuz", DTypeKind::kF8Fnuz, 1},
    {DType::kF8E5M2Fnuz, "f8e5m2fnuz", DTypeKind::kF8Fnuz, 1},
    {DType::kQ4_0, "q4_0", DTypeKind::kBlocks, 18, 32, 32, 0, 1, 3, 30, 2},
    {DType::kQ8_0, "q8_0", DTypeKind::kBlocks, 34, 32, 32, 0, 1, 3, 32, 2},
    {DType::kQ4_1, "q4_1", DTypeKind::kBlocks, 20, 32, 32, 0, 2, 3, 32, 4},
    {DType::kQ5_0, "q5_0", DTypeKind::kBlocks, 22, 32, 32, 0, 1, 5, 44, 6},
    {DType::kQ5_1, "q5_1", DTypeKind::kBlocks, 24, 32, 32, 0, 2, 5, 44, 8},
    {DType::kQ4_K, "q4_k", DTypeKind::kBlocks, 144, 256, 256, 0, 2, 6, 26, 16},
    {DType::kQ5_K, "q5_k", DTypeKind::kBlocks, 176, 256, 256, 0, 2, 8, 34, 48},
    {DType::kQ6_K, "q6_k", DTypeKind::kBlocks, 210, 256, 256, 208, 1, 7, 40, 0},
    {DType::kIQ4_NL, "iq4_nl", DTypeKind::kBlocks, 18, 32, 32, 0, 1, 3, 34, 2},
    {DType::kIQ4_XS, "iq4_xs", DTypeKind::kBlocks, 136, 256, 256, 0, 1, 5, 28, 8},
    {DType::kMXFP4, "mxfp4", DTypeKind::kBlocks, 17, 32, 32, 0, 0, 4, 36, 1},
    {DType::kF4E2M1, "f4e2m1", DTypeKind::kStored, 1, 0, 2},
    {DType::kF8E8M0, "f8e8m0", DTypeKind::kStored, 1},
    {DType::kU4Awq, "u4_awq", DTypeKind::kStored, 4, 0, 8},
    {DType::kU4Gptq, "u4_gptq", DTypeKind::kStored, 4, 0, 8},
    {DType::kU4GptqV2, "u4_gptq_v2", DTypeKind::kStored, 4, 0, 8},
    {DType::kU4x128, "u4_128", DTypeKind::kGroups, 68, 0, 128, 0, 1, 4, 0, 4},
    {DType::kF8E4M3x128, "f8e4m3_128", DTypeKind::kGroups, 128, 0, 128, 0, 0, 7, 0, 0, 4},
    {DType::kMXF8E4M3, "mxf8e4m3", DTypeKind::kGroups, 32, 0, 32, 0, 0, 8, 0, 0, 1},
    {DType::kMXF8E5M2, "mxf8e5m2", DTypeKind::kGroups, 32, 0, 32, 0, 0, 5, 0, 0, 1},
    {DType::kMXF4E2M1, "mxf4e2m1", DTypeKind::kGroups, 16, 0, 32, 0, 0, 4, 0, 0, 1},
    {DType::kNVF4E2M1, "nvf4e2m1", DTypeKind::kGroups, 16, 0, 32, 0, 0, 8, 0, 0, 2}};
inline constexpr size_t kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr bool has_row(DType t) { return static_cast<uint32_t>(t) < kDTypeCount; }
// The row of kNone if the value is unknown.
constexpr const DTypeRow& row_of(DType t) { return kDTypes[has_row(t) ? static_cast<size_t>(t) : 0]; }
constexpr bool dtypes_are_ordered() {
  for (size_t i = 0; i < kDTypeCount; ++i)
    if (static_cast<size_t>(kDTypes[i].value) != i) return false;
  return true;
}
static_assert(dtypes_are_ordered(), "kDTypes is indexed by the dtype's value");

// Bytes of one element, or of one block for a block format.
constexpr size_t size_of(DType t) { return static_cast<size_t>(row_of(t).bytes); }
constexpr bool is_float(DType t) { return row_of(t).kind == DTypeKind::kFloat; }
constexpr bool is_fnuz(DType t) { return row_of(t).kind == DTypeKind::kF8Fnuz; }
constexpr bool is_f8(DType t) { return row_of(t).kind == DTypeKind::kF8 || is_fnuz(t); }
constexpr bool is_blocks(DType t) { return row_of(t).kind >= DTypeKind::kBlocks; }
// Whether the scales of a block format are an array of their own.
constexpr bool has_scales_apart(DType t) { return row_of(t).apart > 0; }
constexpr int64_t block_elements(DType t) { return row_of(t).elements; }
constexpr double bytes_per_element(DType t) {
  return static_cast<double>(size_of(t)) / static_cast<double>(block_elements(t));
}

// The values equal those of lathe_activation, lathe_combine, lathe_determinism and lathe_math.
enum class Activation : int16_t {
  kNone = 0,
  kRelu = 1,
  kGelu = 2,
  kGeluTanh = 3,
  kSilu = 4,
  kSiluClamped = 5,
  kClampPlusOne = 6
};
enum class Combine : int16_t { kAdd = 0, kMultiply = 1 };
enum class Determinism : int32_t { kFast = 0, kRunToRun = 1, kBatchInvariant = 2 };
enum class Math : int32_t { kStrict = 0, kTf32 = 1, kInt8 = 2, kBf16 = 3 };

// The names are those in dtype.cc, for example "f32" or "gelu_tanh"; name_of returns "unknown" for any other
// value. The parsers return false on an unknown name and leave *out unchanged.
absl::string_view name_of(DType t);
absl::string_view name_of(Activation a);
absl::string_view name_of(Combine c);
absl::string_view name_of(Determinism d);
absl::string_view name_of(Math m);
bool parse(absl::string_view name, DType* out);
bool parse(absl::string_view name, Activation* out);
bool parse(absl::string_view name, Combine* out);
bool parse(absl::string_view name, Determinism* out);
bool parse(absl::string_view name, Math* out);

constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace lathe
