// setp and set.
#include <cmath>

#include "tests/gpu/emulator/ptx/floating.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/scalar.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

enum Comparison { kEq, kNe, kLt, kLe, kGt, kGe, kEqu, kNeu, kLtu, kLeu, kGtu, kGeu, kNum, kNan };

template <int kComparison, class T>
bool compare(T a, T b) {
  const bool unordered = std::is_floating_point_v<T> && (a != a || b != b);
  switch (kComparison) {
    case kEq: return a == b;
    case kNe: return !unordered && a != b;
    case kLt: return a < b;
    case kLe: return a <= b;
    case kGt: return a > b;
    case kGe: return a >= b;
    case kEqu: return unordered || a == b;
    case kNeu: return unordered || a != b;
    case kLtu: return unordered || a < b;
    case kLeu: return unordered || a <= b;
    case kGtu: return unordered || a > b;
    case kGeu: return unordered || a >= b;
    case kNum: return !unordered;
    default: return unordered;
  }
}

struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
inline float value(Half h) { return f16_to_float(h.bits); }
inline float value(Brain b) { return bf16_to_float(b.bits); }
template <class T>
T value(T x) {
  return x;
}

// Combines the comparison with a predicate. imm: 1 and, 2 or, 3 xor.
bool combine(const Thread& t, const Instruction& i, bool result) {
  if (i.imm == 0) return result;
  const bool c = (t.r[i.c >> 1] & 1) != (i.c & 1);
  return i.imm == 1 ? result && c : i.imm == 2 ? result || c : result != c;
}

template <int kComparison, class T>
Step set_predicate(Thread& t, const Instruction& i) {
  t.r[i.d] = compare<kComparison>(value(from_bits<T>(t.r[i.a])), value(from_bits<T>(t.r[i.b])));
  return Step::next;
}
// The general form: with a boolean operation, a second predicate (in the list) or .ftz (flags).
template <int kComparison, class T>
Step set_predicates(Thread& t, const Instruction& i) {
  auto a = value(from_bits<T>(t.r[i.a])), b = value(from_bits<T>(t.r[i.b]));
  if constexpr (std::is_same_v<decltype(a), float>) {
    if (i.flags != 0) a = flush(a), b = flush(b);
  }
  const bool result = compare<kComparison>(a, b);
  const bool p = combine(t, i, result), q = combine(t, i, !result);
  t.r[t.block->machine->kernel.lists[i.list]] = q;
  t.r[i.d] = p;
  return Step::next;
}
template <int kComparison, class T>
Step set_value(Thread& t, const Instruction& i) {  // flags 1: true is 1.0f, else all ones
  const bool result =
      combine(t, i, compare<kComparison>(value(from_bits<T>(t.r[i.a])), value(from_bits<T>(t.r[i.b]))));
  t.r[i.d] = !result ? 0 : i.flags != 0 ? 0x3f800000 : 0xffffffff;
  return Step::next;
}
// Compares both halves. flags 3: setp, which writes p|q. Otherwise set, which writes a pair (0 masks, 1 f16, 2 bf16).
template <int kComparison, class T>
Step set_pair(Thread& t, const Instruction& i) {
  bool results[2];
  for (int half = 0; half < 2; ++half) {
    results[half] = combine(t, i,
                            compare<kComparison>(value(from_bits<T>(t.r[i.a] >> (16 * half))),
                                                 value(from_bits<T>(t.r[i.b] >> (16 * half)))));
  }
  if (i.flags == 3) {
    t.r[t.block->machine->kernel.lists[i.list]] = results[1];
    t.r[i.d] = results[0];
  } else {
    const uint32_t one = i.flags == 0 ? 0xffff : i.flags == 1 ? 0x3c00 : 0x3f80;
    t.r[i.d] = (results[0] ? one : 0) | (results[1] ? one << 16 : 0);
  }
  return Step::next;
}

enum Form { kPlain, kGeneral, kValue, kPair };
template <int kComparison, class T>
Handler pick_form(Form form) {
  return form == kPlain     ? set_predicate<kComparison, T>
         : form == kGeneral ? set_predicates<kComparison, T>
                            : set_value<kComparison, T>;
}

template <class T>
Handler pick_comparison(int comparison, Form form) {
  switch (comparison) {
#define LATHE_PTX_CASE(c) \
  case c: return pick_form<c, T>(form)
    LATHE_PTX_CASE(kEq);
    LATHE_PTX_CASE(kNe);
    LATHE_PTX_CASE(kLt);
    LATHE_PTX_CASE(kLe);
    LATHE_PTX_CASE(kGt);
    LATHE_PTX_CASE(kGe);
    default: break;
  }
  if constexpr (std::is_floating_point_v<T> || std::is_class_v<T>) {
    switch (comparison) {
      LATHE_PTX_CASE(kEqu);
      LATHE_PTX_CASE(kNeu);
      LATHE_PTX_CASE(kLtu);
      LATHE_PTX_CASE(kLeu);
      LATHE_PTX_CASE(kGtu);
      LATHE_PTX_CASE(kGeu);
      LATHE_PTX_CASE(kNum);
      LATHE_PTX_CASE(kNan);
#undef LATHE_PTX_CASE
      default: break;
    }
  }
  return nullptr;
}

template <class T>
Handler pick_pair(int comparison) {
  switch (comparison) {
#define LATHE_PTX_CASE(c) \
  case c: return set_pair<c, T>
    LATHE_PTX_CASE(kEq);
    LATHE_PTX_CASE(kNe);
    LATHE_PTX_CASE(kLt);
    LATHE_PTX_CASE(kLe);
    LATHE_PTX_CASE(kGt);
    LATHE_PTX_CASE(kGe);
    LATHE_PTX_CASE(kEqu);
    LATHE_PTX_CASE(kNeu);
    LATHE_PTX_CASE(kLtu);
    LATHE_PTX_CASE(kLeu);
    LATHE_PTX_CASE(kGtu);
    LATHE_PTX_CASE(kGeu);
    LATHE_PTX_CASE(kNum);
    LATHE_PTX_CASE(kNan);
#undef LATHE_PTX_CASE
    default: return nullptr;
  }
}

Handler pick(Type type, int comparison, Form form) {
  switch (type) {
    case Type::b16:
    case Type::u16: return pick_comparison<uint16_t>(comparison, form);
    case Type::b32:
    case Type::u32: return pick_comparison<uint32_t>(comparison, form);
    case Type::b64:
    case Type::u64: return pick_comparison<uint64_t>(comparison, form);
    case Type::s16: return pick_comparison<int16_t>(comparison, form);
    case Type::s32: return pick_comparison<int32_t>(comparison, form);
    case Type::s64: return pick_comparison<int64_t>(comparison, form);
    case Type::f32: return pick_comparison<float>(comparison, form);
    case Type::f64: return pick_comparison<double>(comparison, form);
    case Type::f16: return pick_comparison<Half>(comparison, form);
    case Type::bf16: return pick_comparison<Brain>(comparison, form);
    case Type::f16x2: return pick_pair<Half>(comparison);
    case Type::bf16x2: return pick_pair<Brain>(comparison);
    default: return nullptr;
  }
}

int take_comparison(Decoder& d) {
  const int comparison = d.take_one_of(
      {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (comparison >= 0) return comparison;
  const int unsigned_one = d.take_one_of({"lo", "ls", "hi", "hs"});
  static constexpr int kUnsigned[] = {kLt, kLe, kGt, kGe};
  if (unsigned_one >= 0) return kUnsigned[unsigned_one];
  d.fail("a comparison operator is missing");
  return kEq;
}

}  // namespace

void decode_setp(Decoder& d) {
  const int comparison = take_comparison(d), boolean = d.take_one_of({"and", "or", "xor"}) + 1;
  const bool ftz = d.take("ftz");
  const Type type = d.take_type();
  const bool pair = type == Type::f16x2 || type == Type::bf16x2;
  const bool plain = boolean == 0 && !ftz && !pair && d.operand(0).pair.empty();
  d.binary(pick(type, comparison, plain ? kPlain : kGeneral), type);
  d.out().imm = boolean;
  if (boolean != 0) d.out().c = d.predicate(3);
  d.out().flags = pair ? 3 : ftz;
  if (!plain) d.append(d.pair_destination(0));
}

void decode_set(Decoder& d) {
  const int comparison = take_comparison(d), boolean = d.take_one_of({"and", "or", "xor"}) + 1;
  d.take("ftz");
  const Type to = d.take_type(), type = d.take_optional_type().value_or(to);
  d.binary(pick(type, comparison, kValue), type);
  d.out().imm = boolean;
  if (boolean != 0) d.out().c = d.predicate(3);
  d.out().flags = to == Type::f32 || to == Type::f16x2 || to == Type::f16 ? 1
                  : to == Type::bf16x2 || to == Type::bf16                ? 2
                                                                          : 0;
}

}  // namespace lathe::ptx
