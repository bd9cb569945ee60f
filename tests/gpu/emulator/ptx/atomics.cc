// atom and red. The interpreter runs one thread at a time, so each of them is atomic at every scope. What they order
// is modelled in visibility.h.
#include <algorithm>

#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

enum Op { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kInc, kDec, kCas };

template <class T>
T apply(Op op, T old, T b, T c) {
  switch (op) {
    case kAdd:
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                            static_cast<std::make_unsigned_t<T>>(b));
    case kMin: return std::min(old, b);
    case kMax: return std::max(old, b);
    case kAnd: return old & b;
    case kOr: return old | b;
    case kXor: return old ^ b;
    case kExch: return b;
    case kInc: return old >= b ? 0 : old + 1;
    case kDec: return old == 0 || old > b ? b : old - 1;
    case kCas: return old == b ? c : old;
  }
  return old;
}

uint64_t apply_half(Op op, FloatFormat format, uint64_t old, uint64_t b) {
  const double x = widen(old & 0xffff, format), y = widen(b & 0xffff, format);
  return narrow(op == kAdd ? add_round_to_odd(x, y) : op == kMin ? std::min(x, y) : std::max(x, y), format);
}

uint64_t apply_bits(Op op, Type type, uint64_t old, uint64_t b, uint64_t c) {
  switch (type) {
    case Type::s32:
      return to_bits(apply(op, from_bits<int32_t>(old), from_bits<int32_t>(b), from_bits<int32_t>(c)));
    case Type::s64:
      return to_bits(apply(op, from_bits<int64_t>(old), from_bits<int64_t>(b), from_bits<int64_t>(c)));
    case Type::u64:
    case Type::b64: return apply(op, old, b, c);
    case Type::b16:
    case Type::u16:
      return to_bits(apply(op, from_bits<uint16_t>(old), from_bits<uint16_t>(b), from_bits<uint16_t>(c)));
    case Type::f32: return to_bits(from_bits<float>(old) + from_bits<float>(b));
    case Type::f64: return to_bits(from_bits<double>(old) + from_bits<double>(b));
    case Type::f16: return apply_half(op, kF16, old, b);
    case Type::bf16: return apply_half(op, kBf16, old, b);
    case Type::f16x2: return apply_half(op, kF16, old, b) | apply_half(op, kF16, old >> 16, b >> 16) << 16;
    case Type::bf16x2: return apply_half(op, kBf16, old, b) | apply_half(op, kBf16, old >> 16, b >> 16) << 16;
    default:
      return to_bits(apply(op, from_bits<uint32_t>(old), from_bits<uint32_t>(b), from_bits<uint32_t>(c)));
  }
}

// flags: operation | Orders << 4 | type << 8. The list: the destinations, then the sources.
template <Space kSpace>
Step atomic(Thread& t, const Instruction& i) {
  const Op op = static_cast<Op>(i.flags & 15);
  const Type type = static_cast<Type>(i.flags >> 8);
  const uint32_t size = type_size(type), width = i.b;
  uint8_t* place = locate<kSpace>(t, i, t.r[i.a] + i.imm, size * width, Access::write);
  if (place == nullptr) return Step::fault;
  Machine& machine = *t.block->machine;
  if (kSpace != Space::shared) machine.visibility.settle(*t.block->cluster, place, size * width);
  order_before(t, i.flags >> 4);
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  for (uint32_t n = 0; n < width; ++n, place += size) {
    uint64_t old = 0;
    std::memcpy(&old, place, size);
    const uint64_t value = apply_bits(op, type, old, t.r[list[width + n]], i.c == 0 ? 0 : t.r[i.c]);
    if (std::memcmp(place, &value, size) != 0) ++machine.progress;
    std::memcpy(place, &value, size);
    t.r[list[n]] = old;
  }
  order_after(t, i.flags >> 4);
  return kSpace == Space::shared ? machine.maybe_yield() : machine.maybe_stall(*t.block->cluster);
}

void decode_atomic(Decoder& d, bool returns) {
  const int order = take_order(d).orders;
  const Space space = take_space(d);
  const int op = d.take_one_of({"add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"});
  d.take("noftz");
  const bool hinted = d.take("L2::cache_hint");
  const int vector = d.take_one_of({"v2", "v4", "v8"});
  const Type type = d.take_type();
  if (op < 0) return d.fail("an operation is missing");
  if (type_size(type) < 4 && op != kAdd && op != kCas && !is_float(type))
    return d.fail("this form is not supported");
  const size_t first = returns ? 1 : 0;
  const Address place = d.address(first);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().b = vector < 0 ? 1 : 2u << vector;
  d.out().flags = static_cast<uint16_t>(op | order << 4 | static_cast<int>(type) << 8);
  if (returns) {
    d.append_destinations(0);
  } else {
    for (uint32_t n = 0; n < d.out().b; ++n) d.append(d.builder().new_register());
  }
  d.append_sources(first + 1, type);
  if (op == kCas) d.out().c = d.source(first + 2, type);
  if (hinted) d.operand(d.operand_count() - 1);
  d.run(space == Space::global    ? atomic<Space::global>
        : space == Space::shared  ? atomic<Space::shared>
        : space == Space::generic ? atomic<Space::generic>
                                  : nullptr);
}

}  // namespace

void decode_atom(Decoder& d) { decode_atomic(d, true); }

// red.async signals an mbarrier; it is in async_copy.cc.
void decode_red(Decoder& d) {
  if (d.take("async")) return decode_red_async(d);
  decode_atomic(d, false);
}

}  // namespace lathe::ptx
