// cp.async.bulk and cp.reduce.async.bulk of contiguous ranges.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/gpu/emulator/ptx/async_copy.h"
#include "tests/gpu/emulator/ptx/mbarrier.h"
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/numbers.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {

bool read_shared(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size,
                 uint8_t* bytes) {
  if (!check_proxy(t, i, block, offset, size, "a bulk copy")) return false;
  std::memcpy(bytes, block.shared.data() + offset, size);
  return true;
}

void write_shared(Block& block, uint32_t offset, uint64_t size, const uint8_t* bytes) {
  std::memcpy(block.shared.data() + offset, bytes, size);
  for (uint64_t granule = (offset + 15) / 16; granule < (offset + size) / 16; ++granule)
    block.written[granule] = 0;
}

Reduction take_reduction(Decoder& d) {
  return static_cast<Reduction>(1 + d.take_one_of({"add", "min", "max", "inc", "dec", "and", "or", "xor"}));
}

bool can_reduce(Reduction op, Type type) {
  if (op == Reduction::none || type == Type::b8 || type_size(type) > 8) return false;
  if (type == Type::f16 || type == Type::bf16)
    return op == Reduction::add || op == Reduction::min || op == Reduction::max;
  if (type == Type::f32 || type == Type::f64) return op == Reduction::add;
  return type_size(type) >= 4;
}

namespace {

template <class T>
T combine(Reduction op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Reduction::add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Reduction::min: return std::min(a, b);
    case Reduction::max: return std::max(a, b);
    case Reduction::inc: return a >= b ? 0 : a + 1;
    case Reduction::dec: return a == 0 || a > b ? b : a - 1;
    case Reduction::bit_and: return a & b;
    case Reduction::bit_or: return a | b;
    case Reduction::bit_xor: return a ^ b;
    case Reduction::none: break;
  }
  return b;
}

uint64_t combine_bits(Reduction op, Type type, uint64_t a, uint64_t b) {
  switch (type) {
    case Type::s32: return to_bits(combine(op, from_bits<int32_t>(a), from_bits<int32_t>(b)));
    case Type::s64: return to_bits(combine(op, from_bits<int64_t>(a), from_bits<int64_t>(b)));
    case Type::u64:
    case Type::b64: return combine(op, a, b);
    case Type::f32: return to_bits(from_bits<float>(a) + from_bits<float>(b));
    case Type::f64: return to_bits(from_bits<double>(a) + from_bits<double>(b));
    case Type::f16:
    case Type::bf16: {
      const FloatFormat format = type == Type::f16 ? kF16 : kBf16;
      const double x = widen(static_cast<uint32_t>(a), format), y = widen(static_cast<uint32_t>(b), format);
      return narrow(op == Reduction::add   ? add_round_to_odd(x, y)
                    : op == Reduction::min ? std::fmin(x, y)
                                           : std::fmax(x, y),
                    format);
    }
    default: return to_bits(combine(op, from_bits<uint32_t>(a), from_bits<uint32_t>(b)));
  }
}

}  // namespace

void reduce_bytes(Reduction op, Type type, uint8_t* target, const uint8_t* source, uint64_t size) {
  const uint32_t width = type_size(type);
  for (uint64_t at = 0; at + width <= size; at += width) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, target + at, width);
    std::memcpy(&b, source + at, width);
    const uint64_t result = combine_bits(op, type, a, b);
    std::memcpy(target + at, &result, width);
  }
}

namespace {

// Slots: a target, b source, c size. The list: the slots of the target's and the source's offset, the slots of the
// mbarrier and its offset, the slot of the multicast mask or kNone. flags: 1 for a source in global memory, 2 for
// a target there, reduction << 4, type << 8.
Step into_shared(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  const uint64_t target = t.r[i.a] + t.r[list[0]], source = t.r[i.b] + t.r[list[1]];
  const uint32_t size = static_cast<uint32_t>(t.r[i.c]);
  if (size % 16 != 0)
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("the size, %u bytes, is not a multiple of 16", size));
  if (size == 0) return Step::next;
  const bool global = (i.flags & 1) != 0;
  uint32_t offset = 0, signal = 0, from = 0;
  Block* block = shared_place(t, i, target, 16, offset);
  Block* signal_block =
      block == nullptr ? nullptr : shared_place(t, i, t.r[list[2]] + t.r[list[3]], 8, signal);
  if (signal_block == nullptr) return Step::fault;
  if (block != signal_block)
    return machine.fault(t, i, absl::StatusCode::kAborted, "target and mbarrier are in different blocks");
  if (source % 16 != 0) return refuse_alignment(t, i, source, 16), Step::fault;
  Block* source_block = nullptr;
  if (global) {
    if (global_range(t, i, source, size, Access::read) == nullptr) return Step::fault;
  } else {
    source_block = shared_place(t, i, source, 16, from);
    if (source_block == nullptr || shared_range(t, i, *source_block, from, size) == nullptr)
      return Step::fault;
    if (source_block != t.block)
      return machine.fault(t, i, absl::StatusCode::kAborted,
                           "the source is not in the shared memory of the executing block");
  }
  const Reduction reduction = static_cast<Reduction>((i.flags >> 4) & 15);
  const Type type = static_cast<Type>(i.flags >> 8);
  const bool multicast = list[4] != kNone;
  const uint32_t mask = multicast ? t.r[list[4]] & 0xffff : 1u << block->rank;
  if (multicast && (mask == 0 || mask >> block->cluster->blocks.size() != 0)) {
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("multicast mask 0x%x, but the cluster has %u blocks", mask,
                                         block->cluster->blocks.size()));
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    Block* to = block->cluster->blocks[__builtin_ctz(rest)].get();
    if (shared_range(t, i, *to, offset, size) == nullptr) return Step::fault;
    AsyncOp op;
    op.target = op.signal_block = to;
    op.signal = signal;
    op.perform = [&t, &i, to, offset, signal, source, source_block, from, size, reduction, type] {
      std::vector<uint8_t> bytes(size);
      if (source_block == nullptr) {
        const uint8_t* place = global_range(t, i, source, size, Access::read);
        if (place == nullptr) return false;
        std::memcpy(bytes.data(), place, size);
      } else if (!read_shared(t, i, *source_block, from, size, bytes.data())) {
        return false;
      }
      if (reduction != Reduction::none) {
        std::vector<uint8_t> old(to->shared.begin() + offset, to->shared.begin() + offset + size);
        reduce_bytes(reduction, type, old.data(), bytes.data(), size);
        bytes = std::move(old);
      }
      write_shared(*to, offset, size, bytes.data());
      return complete_transactions(t, i, *to, signal, size);
    };
    if (machine.issue(t, std::move(op)) == Step::fault) return Step::fault;
  }
  return machine.maybe_yield();
}

Step into_global(Thread& t, const Instruction& i) {
  Machine& machine = *t.block->machine;
  const uint32_t* list = machine.kernel.lists.data() + i.list;
  const uint64_t target = t.r[i.a] + t.r[list[0]], source = t.r[i.b] + t.r[list[1]];
  const uint32_t size = static_cast<uint32_t>(t.r[i.c]);
  if (size % 16 != 0)
    return machine.fault(t, i, absl::StatusCode::kAborted,
                         absl::StrFormat("the size, %u bytes, is not a multiple of 16", size));
  if (size == 0) return Step::next;
  uint32_t from = 0;
  Block* block = shared_place(t, i, source, 16, from);
  if (block == nullptr || shared_range(t, i, *block, from, size) == nullptr) return Step::fault;
  if (target % 16 != 0) return refuse_alignment(t, i, target, 16), Step::fault;
  if (global_range(t, i, target, size, Access::write) == nullptr) return Step::fault;
  const Reduction reduction = static_cast<Reduction>((i.flags >> 4) & 15);
  const Type type = static_cast<Type>(i.flags >> 8);
  auto bytes = std::make_shared<std::vector<uint8_t>>(size);
  PendingStore store;
  store.read = [&t, &i, block, from, size, bytes] {
    return read_shared(t, i, *block, from, size, bytes->data());
  };
  store.write = [&t, &i, target, size, bytes, reduction, type] {
    uint8_t* place = global_range(t, i, target, size, Access::write);
    if (place == nullptr) return false;
    if (reduction == Reduction::none) {
      std::memcpy(place, bytes->data(), size);
    } else {
      reduce_bytes(reduction, type, place, bytes->data(), size);
    }
    ++t.block->machine->progress;
    return true;
  };
  return issue_store(t, std::move(store));
}

}  // namespace

void decode_bulk(Decoder& d, bool reduces) {
  // The modifiers name the target, then the source. Only global.shared::cta copies out of shared memory.
  const bool from_cta = d.take("shared::cta"), to_cluster = d.take("shared::cluster"),
             global = d.take("global");
  const bool grouped = d.take("bulk_group");
  d.take("mbarrier::complete_tx::bytes");
  const bool multicast = d.take("multicast::cluster"), hinted = take_cache_hints(d);
  Reduction reduction = Reduction::none;
  Type type = Type::b8;
  if (reduces) {
    reduction = take_reduction(d);
    d.take("noftz");
    type = d.take_type();
    if (!can_reduce(reduction, type)) return d.fail("this reduction does not exist for the type");
  }
  if (grouped && (!global || !from_cta)) return d.fail("this form is not supported");
  const Address target = d.address(0), source = d.address(1);
  d.out().a = target.base;
  d.out().b = source.base;
  d.out().c = d.source(2, Type::u32);
  d.append(d.builder().constant(static_cast<uint64_t>(target.offset)));
  d.append(d.builder().constant(static_cast<uint64_t>(source.offset)));
  d.out().flags = static_cast<uint16_t>((global ? 1 : 0) | static_cast<int>(reduction) << 4 |
                                        static_cast<int>(type) << 8);
  if (hinted) d.operand(d.operand_count() - 1);
  if (grouped) return d.run(into_global);
  if (!to_cluster && !(from_cta && global)) return d.fail("this form is not supported");
  d.append_address(3);
  d.append(multicast ? d.source(4, Type::b16) : kNone);
  d.run(into_shared);
}

}  // namespace lathe::ptx
