// Moves, logic, shifts and bit fields.
#include "absl/strings/match.h"
#include "tests/gpu/emulator/ptx/moves.h"
#include "tests/gpu/emulator/ptx/scalar.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {

Step run_move(Thread& t, const Instruction& i) {
  t.r[i.d] = t.r[i.a];
  return Step::next;
}

namespace {

// mov d, {a, b, ...}. flags: the width of an element in bits.
Step pack(Thread& t, const Instruction& i) {
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  const uint64_t mask = ~uint64_t{0} >> (64 - i.flags);
  uint64_t value = 0;
  for (uint32_t n = 0; n < i.count; ++n) value |= (t.r[list[n]] & mask) << (n * i.flags);
  t.r[i.d] = value;
  return Step::next;
}
Step unpack(Thread& t, const Instruction& i) {
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  const uint64_t mask = ~uint64_t{0} >> (64 - i.flags), value = t.r[i.a];
  for (uint32_t n = 0; n < i.count; ++n) t.r[list[n]] = (value >> (n * i.flags)) & mask;
  return Step::next;
}
Step read_clock(Thread& t, const Instruction& i) {
  t.r[i.d] = ++t.block->machine->time;
  return Step::next;
}

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return ~a;
  }
};
struct LogicalNot {
  template <class T>
  T operator()(T a) const {
    return a == 0 ? 1 : 0;
  }
};
struct PredicateNot {
  uint8_t operator()(uint8_t a) const { return (a & 1) ^ 1; }
};
struct ReverseBits {
  template <class T>
  T operator()(T a) const {
    T result = 0;
    for (size_t bit = 0; bit < 8 * sizeof(T); ++bit) result |= ((a >> bit) & 1) << (8 * sizeof(T) - 1 - bit);
    return result;
  }
};

// A shift by the width or more shifts out all bits.
template <class T>
Step shift_left(Thread& t, const Instruction& i) {
  const uint32_t amount = static_cast<uint32_t>(t.r[i.b]);
  t.r[i.d] =
      amount >= 8 * sizeof(T) ? 0 : static_cast<T>(static_cast<uint64_t>(from_bits<T>(t.r[i.a])) << amount);
  return Step::next;
}
template <class T>
Step shift_right(Thread& t, const Instruction& i) {
  const uint32_t amount = std::min<uint32_t>(static_cast<uint32_t>(t.r[i.b]), 8 * sizeof(T));
  const T a = from_bits<T>(t.r[i.a]);
  t.r[i.d] = to_bits(amount == 8 * sizeof(T) ? static_cast<T>(a < T{0} ? ~T{0} : T{0})
                                             : static_cast<T>(a >> amount));
  return Step::next;
}
// shf. flags: 1 shifts right, 2 wraps the amount.
Step funnel(Thread& t, const Instruction& i) {
  const uint64_t both = (t.r[i.a] & 0xffffffff) | t.r[i.b] << 32;
  const uint32_t given = static_cast<uint32_t>(t.r[i.c]),
                 amount = (i.flags & 2) != 0 ? given & 31 : std::min(given, 32u);
  t.r[i.d] = static_cast<uint32_t>((i.flags & 1) != 0 ? both >> amount : (both << amount) >> 32);
  return Step::next;
}

uint32_t look_up(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result = 0;
  for (int row = 0; row < 8; ++row) {
    if (((table >> row) & 1) == 0) continue;
    result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  return result;
}
Step logic3(Thread& t, const Instruction& i) {
  t.r[i.d] = look_up(static_cast<uint32_t>(i.imm), static_cast<uint32_t>(t.r[i.a]),
                     static_cast<uint32_t>(t.r[i.b]), static_cast<uint32_t>(t.r[i.c]));
  return Step::next;
}

// prmt: each nibble of the selector chooses a byte of {b, a}; bit 3 of a nibble replicates the sign of the byte. imm:
// the mode.
Step permute(Thread& t, const Instruction& i) {
  const uint64_t bytes = (t.r[i.a] & 0xffffffff) | t.r[i.b] << 32;
  const uint32_t c = static_cast<uint32_t>(t.r[i.c]), s = c & 3;
  static constexpr uint16_t kModes[7][4] = {{0, 0, 0, 0},
                                            {0x3210, 0x4321, 0x5432, 0x6543},   // f4e
                                            {0x5670, 0x6701, 0x7012, 0x0123},   // b4e
                                            {0x0000, 0x1111, 0x2222, 0x3333},   // rc8
                                            {0x3210, 0x3211, 0x3222, 0x3333},   // ecl
                                            {0x0000, 0x1110, 0x2210, 0x3210},   // ecr
                                            {0x1010, 0x3232, 0x1010, 0x3232}};  // rc16
  const uint32_t selector = i.imm == 0 ? c : kModes[i.imm][s];
  uint32_t result = 0;
  for (int byte = 0; byte < 4; ++byte) {
    const uint32_t nibble = (selector >> (4 * byte)) & 15;
    uint32_t value = static_cast<uint8_t>(bytes >> (8 * (nibble & 7)));
    if ((nibble & 8) != 0) value = (value & 0x80) != 0 ? 0xff : 0;
    result |= value << (8 * byte);
  }
  t.r[i.d] = result;
  return Step::next;
}

template <class T>
Step extract_field(Thread& t, const Instruction& i) {
  const uint32_t width = 8 * sizeof(T), position = t.r[i.b] & 0xff, length = t.r[i.c] & 0xff;
  const T a = from_bits<T>(t.r[i.a]);
  const uint32_t top = std::min(position + length - 1, width - 1);
  const bool sign = std::is_signed_v<T> && length != 0 && ((static_cast<uint64_t>(a) >> top) & 1) != 0;
  std::make_unsigned_t<T> result = 0;
  for (uint32_t bit = 0; bit < width; ++bit) {
    const bool set = bit < length && position + bit < width
                         ? ((static_cast<uint64_t>(a) >> (position + bit)) & 1) != 0
                         : sign;
    if (set) result |= std::make_unsigned_t<T>{1} << bit;
  }
  t.r[i.d] = to_bits(result);
  return Step::next;
}
template <class T>
Step insert_field(Thread& t, const Instruction& i) {  // c: the position; the list: the length
  const uint32_t length = t.r[t.block->machine->kernel.lists[i.list]] & 0xff, position = t.r[i.c] & 0xff;
  const T a = from_bits<T>(t.r[i.a]);
  T b = from_bits<T>(t.r[i.b]);
  for (uint32_t bit = 0; bit < length && position + bit < 8 * sizeof(T); ++bit) {
    const T mask = T{1} << (position + bit);
    b = ((a >> bit) & 1) != 0 ? b | mask : b & ~mask;
  }
  t.r[i.d] = b;
  return Step::next;
}
Step bit_mask(Thread& t, const Instruction& i) {  // flags 1: wraps
  const uint32_t a = i.flags != 0 ? t.r[i.a] & 31 : std::min<uint64_t>(t.r[i.a] & 0xffffffff, 32);
  const uint32_t b = i.flags != 0 ? t.r[i.b] & 31 : std::min<uint64_t>(t.r[i.b] & 0xffffffff, 32);
  t.r[i.d] = a >= 32 ? 0 : static_cast<uint32_t>(((uint64_t{1} << b) - 1) << a);
  return Step::next;
}
Step extend_sign(Thread& t, const Instruction& i) {  // szext. flags: 1 wraps, 2 signed
  const uint32_t n = (i.flags & 1) != 0 ? t.r[i.b] & 31 : std::min<uint64_t>(t.r[i.b] & 0xffffffff, 32);
  const uint32_t a = static_cast<uint32_t>(t.r[i.a]);
  if (n == 32) return t.r[i.d] = a, Step::next;
  const uint32_t low = a & ((1u << n) - 1);
  const bool sign = (i.flags & 2) != 0 && n > 0 && ((a >> (n - 1)) & 1) != 0;
  t.r[i.d] = sign ? low | ~((1u << n) - 1) : low;
  return Step::next;
}

Step select(Thread& t, const Instruction& i) {
  t.r[i.d] = (t.r[i.c >> 1] & 1) != (i.c & 1) ? t.r[i.a] : t.r[i.b];
  return Step::next;
}
template <class T>
Step select_by_sign(Thread& t, const Instruction& i) {
  t.r[i.d] = from_bits<T>(t.r[i.c]) >= T{0} ? t.r[i.a] : t.r[i.b];
  return Step::next;
}

template <class F>
void decode_logic(Decoder& d) {
  const Type type = d.take_type();
  d.binary(type == Type::pred ? run_binary<uint8_t, F> : pick_binary<F>(type), type);
}

}  // namespace

void decode_mov(Decoder& d) {
  const Type type = d.take_type();
  if (d.is_vector(1)) {
    d.append_sources(1, type);
    d.out().d = d.destination(0);
    d.out().flags = static_cast<uint16_t>(8 * type_size(type) / d.operand(1).elements.size());
    return d.run(pack);
  }
  if (d.is_vector(0)) {
    d.append_destinations(0);
    d.out().a = d.source(1, type);
    d.out().flags = static_cast<uint16_t>(8 * type_size(type) / d.operand(0).elements.size());
    return d.run(unpack);
  }
  const Operand& from = d.operand(1);
  if (from.kind == Operand::label &&
      (absl::StartsWith(from.text, "%clock") || absl::StartsWith(from.text, "%globaltimer"))) {
    d.out().d = d.destination(0);
    return d.run(read_clock);
  }
  d.unary(run_move, type);
}

void decode_and(Decoder& d) { decode_logic<And>(d); }
void decode_or(Decoder& d) { decode_logic<Or>(d); }
void decode_xor(Decoder& d) { decode_logic<Xor>(d); }
void decode_not(Decoder& d) {
  const Type type = d.take_type();
  d.unary(type == Type::pred ? run_unary<uint8_t, PredicateNot> : pick_unary<Not>(type), type);
}
void decode_cnot(Decoder& d) {
  const Type type = d.take_type();
  d.unary(pick_unary<LogicalNot>(type), type);
}
void decode_brev(Decoder& d) {
  const Type type = d.take_type();
  d.unary(type == Type::b64 ? run_unary<uint64_t, ReverseBits> : run_unary<uint32_t, ReverseBits>, type);
}
void decode_lop3(Decoder& d) {
  d.take_type();
  d.ternary(logic3, Type::b32);
  d.out().imm = d.immediate(4);
}
void decode_shl(Decoder& d) {
  const uint32_t size = type_size(d.take_type());
  d.binary(size == 2   ? shift_left<uint16_t>
           : size == 4 ? shift_left<uint32_t>
                       : shift_left<uint64_t>,
           Type::b32);
}
void decode_shr(Decoder& d) {
  const Type type = d.take_type();
  switch (type) {
    case Type::s16: return d.binary(shift_right<int16_t>, type);
    case Type::s32: return d.binary(shift_right<int32_t>, type);
    case Type::s64: return d.binary(shift_right<int64_t>, type);
    case Type::b16:
    case Type::u16: return d.binary(shift_right<uint16_t>, type);
    case Type::b32:
    case Type::u32: return d.binary(shift_right<uint32_t>, type);
    default: return d.binary(shift_right<uint64_t>, type);
  }
}
void decode_shf(Decoder& d) {
  const bool right = d.take_one_of({"l", "r"}) == 1, wraps = d.take_one_of({"clamp", "wrap"}) == 1;
  d.take_type();
  d.ternary(funnel, Type::b32);
  d.out().flags = static_cast<uint16_t>((right ? 1 : 0) | (wraps ? 2 : 0));
}
void decode_prmt(Decoder& d) {
  d.take_type();
  d.out().imm = d.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1;
  d.ternary(permute, Type::b32);
}
void decode_bfe(Decoder& d) {
  const Type type = d.take_type();
  d.ternary(type == Type::u32   ? extract_field<uint32_t>
            : type == Type::s32 ? extract_field<int32_t>
            : type == Type::u64 ? extract_field<uint64_t>
                                : extract_field<int64_t>,
            type);
}
void decode_bfi(Decoder& d) {
  const Type type = d.take_type();
  d.append(d.source(4, Type::b32));
  d.ternary(type == Type::b64 ? insert_field<uint64_t> : insert_field<uint32_t>, type);
}
void decode_bmsk(Decoder& d) {
  d.out().flags = d.take_one_of({"clamp", "wrap"}) == 1;
  d.take_type();
  d.binary(bit_mask, Type::b32);
}
void decode_szext(Decoder& d) {
  const bool wraps = d.take_one_of({"clamp", "wrap"}) == 1;
  d.out().flags = static_cast<uint16_t>((wraps ? 1 : 0) | (is_signed(d.take_type()) ? 2 : 0));
  d.binary(extend_sign, Type::b32);
}
void decode_selp(Decoder& d) {
  const Type type = d.take_type();
  d.binary(select, type);
  d.out().c = d.predicate(3);
}
void decode_slct(Decoder& d) {
  d.take("ftz");
  const Type type = d.take_type(), by = d.take_type();
  d.binary(by == Type::f32 ? select_by_sign<float> : select_by_sign<int32_t>, type);
  d.out().c = d.source(3, by);
}

}  // namespace lathe::ptx
