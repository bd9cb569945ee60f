// The types of PTX operands.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/strings/string_view.h"

namespace lathe::ptx {

enum class Type : uint8_t {
  pred,
  b8,
  b16,
  b32,
  b64,
  b128,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  f16x2,
  bf16,
  bf16x2,
  tf32,
  f32,
  f32x2,
  f64,
  e4m3,
  e5m2,
  e4m3x2,
  e5m2x2,
};

std::optional<Type> parse_type(absl::string_view name);
const char* type_name(Type type);
// Size of one value in bytes; a predicate counts as one byte.
uint32_t type_size(Type type);
inline bool is_signed(Type t) { return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64; }
// A scalar floating-point type (not a packed pair).
inline bool is_float(Type t) {
  return t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64 || t == Type::tf32;
}

// A register holds 64 raw bits. Every instruction reads and writes through its own type, so the bits above a
// narrower value are never seen.
template <class T>
T from_bits(uint64_t bits) {
  static_assert(sizeof(T) <= 8);
  T value;
  std::memcpy(&value, &bits, sizeof(T));  // little-endian, like the GPU
  return value;
}
template <class T>
uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

}  // namespace lathe::ptx
