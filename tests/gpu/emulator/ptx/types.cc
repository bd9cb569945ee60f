#include "tests/gpu/emulator/ptx/types.h"

namespace lathe::ptx {
namespace {

struct Row {
  Type type;
  const char* name;
  uint32_t size;
};
constexpr Row kTypes[] = {
    {Type::pred, "pred", 1},     {Type::b8, "b8", 1},         {Type::b16, "b16", 2},
    {Type::b32, "b32", 4},       {Type::b64, "b64", 8},       {Type::b128, "b128", 16},
    {Type::u8, "u8", 1},         {Type::u16, "u16", 2},       {Type::u32, "u32", 4},
    {Type::u64, "u64", 8},       {Type::s8, "s8", 1},         {Type::s16, "s16", 2},
    {Type::s32, "s32", 4},       {Type::s64, "s64", 8},       {Type::f16, "f16", 2},
    {Type::f16x2, "f16x2", 4},   {Type::bf16, "bf16", 2},     {Type::bf16x2, "bf16x2", 4},
    {Type::tf32, "tf32", 4},     {Type::f32, "f32", 4},       {Type::f32x2, "f32x2", 8},
    {Type::f64, "f64", 8},       {Type::e4m3, "e4m3", 1},     {Type::e5m2, "e5m2", 1},
    {Type::e4m3x2, "e4m3x2", 2}, {Type::e5m2x2, "e5m2x2", 2},
};

}  // namespace

std::optional<Type> parse_type(absl::string_view name) {
  for (const Row& row : kTypes) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

const char* type_name(Type type) { return kTypes[static_cast<int>(type)].name; }
uint32_t type_size(Type type) { return kTypes[static_cast<int>(type)].size; }

}  // namespace lathe::ptx
