// Builds instruction handlers from functions of plain values.
#pragma once

#include <type_traits>

#include "tests/gpu/emulator/ptx/decoder.h"
#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

// F is a functor with operator()(T...) -> R.
template <class T, class F>
Step run_unary(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(F()(from_bits<T>(t.r[i.a])));
  return Step::next;
}
template <class T, class F>
Step run_binary(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(F()(from_bits<T>(t.r[i.a]), from_bits<T>(t.r[i.b])));
  return Step::next;
}
template <class T, class F>
Step run_ternary(Thread& t, const Instruction& i) {
  t.r[i.d] = to_bits(F()(from_bits<T>(t.r[i.a]), from_bits<T>(t.r[i.b]), from_bits<T>(t.r[i.c])));
  return Step::next;
}

// Instantiates the handler for an integer type; bit types count as unsigned. Null for other types.
#define LATHE_PTX_PICK(name, form)              \
  template <class F>                            \
  Handler name(Type type) {                     \
    switch (type) {                             \
      case Type::b8:                            \
      case Type::u8: return form<uint8_t, F>;   \
      case Type::b16:                           \
      case Type::u16: return form<uint16_t, F>; \
      case Type::b32:                           \
      case Type::u32: return form<uint32_t, F>; \
      case Type::b64:                           \
      case Type::u64: return form<uint64_t, F>; \
      case Type::s16: return form<int16_t, F>;  \
      case Type::s32: return form<int32_t, F>;  \
      case Type::s64: return form<int64_t, F>;  \
      default: return nullptr;                  \
    }                                           \
  }
LATHE_PTX_PICK(pick_unary, run_unary)
LATHE_PTX_PICK(pick_binary, run_binary)
LATHE_PTX_PICK(pick_ternary, run_ternary)
#undef LATHE_PTX_PICK

}  // namespace lathe::ptx
