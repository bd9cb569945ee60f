// ld, st, and the conversions between address spaces.
#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

template <class T>
uint64_t load_value(const uint8_t* place) {
  T value;
  std::memcpy(&value, place, sizeof(T));
  return static_cast<uint64_t>(
      static_cast<std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>(value));
}

// Instruction::flags of loads and stores, in addition to Orders.
enum : uint16_t {
  kOrdered = 4,  // not weak: other threads can observe its order
  kStrong = 8,   // gpu scope or wider: accesses memory directly
};

template <Space kSpace>
bool is_global(uint64_t address) {
  return kSpace == Space::global || (kSpace == Space::generic && address >> kWindowShift == 0);
}

// The bytes that an ordinary load returns: memory itself, or a copy merged from stores that are visible.
template <Space kSpace>
const uint8_t* visible(Thread& t, const uint8_t* place, uint8_t* bytes, uint32_t size) {
  if constexpr (kSpace == Space::global || kSpace == Space::generic) {
    Visibility& visibility = t.block->machine->visibility;
    if (!visibility.concerns(*t.block->cluster, place)) return place;
    visibility.load(*t.block->cluster, place, bytes, size);
    return bytes;
  }
  return place;
}

template <Space kSpace, class T>
Step load(Thread& t, const Instruction& i) {
  const uint8_t* place = locate<kSpace>(t, i, t.r[i.a] + i.imm, sizeof(T), Access::read);
  if (place == nullptr) return Step::fault;
  uint8_t bytes[sizeof(T)];
  t.r[i.d] = load_value<T>(visible<kSpace>(t, place, bytes, sizeof(T)));
  return Step::next;
}

template <Space kSpace, class T>
Step load_vector(Thread& t, const Instruction& i) {
  const uint32_t size = static_cast<uint32_t>(sizeof(T)) * i.count;
  const uint64_t address = t.r[i.a] + i.imm;
  const uint8_t* place = locate<kSpace>(t, i, address, size, Access::read);
  if (place == nullptr) return Step::fault;
  uint8_t bytes[64];
  if ((i.flags & kStrong) == 0) {
    place = visible<kSpace>(t, place, bytes, size);
  } else if (is_global<kSpace>(address)) {
    t.block->machine->visibility.settle(*t.block->cluster, place, size);
  }
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  for (uint32_t n = 0; n < i.count; ++n) t.r[list[n]] = load_value<T>(place + n * sizeof(T));
  order_after(t, i.flags);
  return (i.flags & kOrdered) != 0 ? t.block->machine->maybe_yield() : Step::next;
}

template <Space kSpace, class T>
Step store(Thread& t, const Instruction& i) {
  const uint64_t address = t.r[i.a] + i.imm;
  uint8_t* place = locate<kSpace>(t, i, address, sizeof(T), Access::write);
  if (place == nullptr) return Step::fault;
  const uint8_t* bytes = reinterpret_cast<const uint8_t*>(&t.r[i.b]);
  if (is_global<kSpace>(address)) {
    t.block->machine->visibility.store(*t.block->cluster, place, bytes, sizeof(T));
  } else {
    std::memcpy(place, bytes, sizeof(T));
  }
  ++t.block->machine->progress;
  return Step::next;
}

template <Space kSpace, class T>
Step store_vector(Thread& t, const Instruction& i) {
  const uint32_t size = static_cast<uint32_t>(sizeof(T)) * i.count;
  const uint64_t address = t.r[i.a] + i.imm;
  uint8_t* place = locate<kSpace>(t, i, address, size, Access::write);
  if (place == nullptr) return Step::fault;
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  uint8_t bytes[64];
  for (uint32_t n = 0; n < i.count; ++n) std::memcpy(bytes + n * sizeof(T), &t.r[list[n]], sizeof(T));
  Visibility& visibility = t.block->machine->visibility;
  order_before(t, i.flags);
  if (is_global<kSpace>(address) && (i.flags & kStrong) == 0) {
    visibility.store(*t.block->cluster, place, bytes, size);
  } else {
    if (is_global<kSpace>(address)) visibility.settle(*t.block->cluster, place, size);
    std::memcpy(place, bytes, size);
  }
  ++t.block->machine->progress;
  return (i.flags & kOrdered) != 0 ? t.block->machine->maybe_yield() : Step::next;
}

template <Space kSpace>
Handler pick_load(Type type, bool vector) {
  switch (type) {
#define LATHE_PTX_CASE(kind, T) \
  case Type::kind: return vector ? load_vector<kSpace, T> : load<kSpace, T>;
    LATHE_PTX_CASE(s8, int8_t)
    LATHE_PTX_CASE(s16, int16_t)
    LATHE_PTX_CASE(s32, int32_t)
#undef LATHE_PTX_CASE
    default: break;
  }
  switch (type_size(type)) {
    case 1: return vector ? load_vector<kSpace, uint8_t> : load<kSpace, uint8_t>;
    case 2: return vector ? load_vector<kSpace, uint16_t> : load<kSpace, uint16_t>;
    case 4: return vector ? load_vector<kSpace, uint32_t> : load<kSpace, uint32_t>;
    case 8: return vector ? load_vector<kSpace, uint64_t> : load<kSpace, uint64_t>;
    default: return nullptr;
  }
}

template <Space kSpace>
Handler pick_store(Type type, bool vector) {
  switch (type_size(type)) {
    case 1: return vector ? store_vector<kSpace, uint8_t> : store<kSpace, uint8_t>;
    case 2: return vector ? store_vector<kSpace, uint16_t> : store<kSpace, uint16_t>;
    case 4: return vector ? store_vector<kSpace, uint32_t> : store<kSpace, uint32_t>;
    case 8: return vector ? store_vector<kSpace, uint64_t> : store<kSpace, uint64_t>;
    default: return nullptr;
  }
}

Handler pick(Space space, Type type, bool vector, Access access) {
  const bool read = access == Access::read;
  switch (space) {
    case Space::generic:
      return read ? pick_load<Space::generic>(type, vector) : pick_store<Space::generic>(type, vector);
    case Space::global:
      return read ? pick_load<Space::global>(type, vector) : pick_store<Space::global>(type, vector);
    case Space::shared:
      return read ? pick_load<Space::shared>(type, vector) : pick_store<Space::shared>(type, vector);
    case Space::local:
      return read ? pick_load<Space::local>(type, vector) : pick_store<Space::local>(type, vector);
    case Space::param: return read ? pick_load<Space::param>(type, vector) : nullptr;
    case Space::constant: return read ? pick_load<Space::constant>(type, vector) : nullptr;
  }
  return nullptr;
}

struct Form {
  bool hinted = false;
  uint16_t flags = 0;
  Space space = Space::generic;
  uint32_t width = 1;
  Type type = Type::b32;
};

Form take_form(Decoder& d) {
  Form form;
  const Order order = take_order(d);
  form.flags = static_cast<uint16_t>(order.orders | (order.named ? kOrdered : 0) |
                                     (order.named && order.wide ? kStrong : 0));
  form.space = take_space(d);
  form.hinted = take_cache_hints(d);
  d.take_one_of({"nc", "unified"});
  form.hinted |= take_cache_hints(d);  // hints may also follow .nc
  const int vector = d.take_one_of({"v2", "v4", "v8"});
  form.width = vector < 0 ? 1 : 2u << vector;
  form.type = d.take_type();
  return form;
}

}  // namespace

void decode_ld(Decoder& d) {
  const Form form = take_form(d);
  d.expect_operands(2, form.hinted ? 3 : 2);
  if (form.hinted) d.operand(2);
  const Address place = d.address(1);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().flags = form.flags;
  if (d.is_vector(0) != (form.width > 1)) return d.fail("the vector width does not match the destination");
  if (form.width > 1 || form.flags != 0) {
    d.append_destinations(0);
    if (d.is_vector(0) && d.operand(0).elements.size() != form.width)
      return d.fail("the vector width does not match the destination");
  } else {
    d.out().d = d.destination(0);
  }
  d.run(pick(form.space, form.type, form.width > 1 || form.flags != 0, Access::read));
}

void decode_st(Decoder& d) {
  if (d.take("async")) return decode_st_async(d);
  const Form form = take_form(d);
  d.expect_operands(2, form.hinted ? 3 : 2);
  if (form.hinted) d.operand(2);
  const Address place = d.address(0);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().flags = form.flags;
  if (d.is_vector(1) != (form.width > 1)) return d.fail("the vector width does not match the source");
  if (form.width > 1 || form.flags != 0) {
    d.append_sources(1, form.type);
    if (d.is_vector(1) && d.operand(1).elements.size() != form.width)
      return d.fail("the vector width does not match the source");
  } else {
    d.expect_no_part_of_float(1, form.type);
    d.out().b = d.source(1, form.type);
  }
  d.run(pick(form.space, form.type, form.width > 1 || form.flags != 0, Access::write));
}

namespace {

// cvta. imm: the window's base, added or subtracted.
Step convert_address(Thread& t, const Instruction& i) {
  t.r[i.d] = t.r[i.a] + static_cast<uint64_t>(i.imm);
  return Step::next;
}

Step is_space(Thread& t, const Instruction& i) {
  const uint64_t window = t.r[i.a] >> kWindowShift;
  t.r[i.d] = i.flags == 0 ? window == static_cast<uint64_t>(i.imm)
                          : window == static_cast<uint64_t>(i.imm) &&
                                ((t.r[i.a] & ~kSharedWindow) >> kRankShift == 0 ||
                                 ((t.r[i.a] & ~kSharedWindow) >> kRankShift) == t.block->rank + 1);
  return Step::next;
}

// mapa. flags 1: generic addresses.
Step map_address(Thread& t, const Instruction& i) {
  uint64_t address = t.r[i.a];
  if (i.flags != 0) {
    if (address >> kWindowShift != kSharedWindow >> kWindowShift) {
      return t.block->machine->fault(t, i, absl::StatusCode::kAborted, "the address is not in shared memory");
    }
    address -= kSharedWindow;
  } else {
    address = static_cast<uint32_t>(address);
  }
  const uint32_t rank = static_cast<uint32_t>(t.r[i.b]);
  if (rank >= t.block->cluster->blocks.size()) {
    return t.block->machine->fault(t, i, absl::StatusCode::kAborted,
                                   absl::StrFormat("the cluster has no block of rank %u", rank));
  }
  t.r[i.d] = shared_offset(address) + (uint64_t{rank + 1} << kRankShift) + (i.flags != 0 ? kSharedWindow : 0);
  return Step::next;
}

Step cluster_rank(Thread& t, const Instruction& i) {
  const uint64_t tag = (without_window(t.r[i.a]) & 0xffffffff) >> kRankShift;
  t.r[i.d] = tag == 0 ? t.block->rank : tag - 1;
  return Step::next;
}

uint64_t window_of(Space space) {
  return space == Space::shared  ? kSharedWindow
         : space == Space::local ? kLocalWindow
         : space == Space::param ? kParamWindow
                                 : 0;
}

}  // namespace

void decode_cvta(Decoder& d) {
  const bool to = d.take("to");
  const uint64_t window = window_of(take_space(d));
  d.unary(convert_address, d.take_type());
  d.out().imm = static_cast<int64_t>(to ? 0 - window : window);
}

void decode_isspacep(Decoder& d) {
  d.out().flags = d.has_modifier() && d.take("shared::cta") ? 1 : 0;
  const Space space = d.out().flags != 0 ? Space::shared : take_space(d);
  d.unary(is_space, Type::b64);
  d.out().imm = static_cast<int64_t>(window_of(space) >> kWindowShift);
}

void decode_mapa(Decoder& d) {
  const bool shared = d.take("shared::cluster");
  d.unary(map_address, d.take_type());
  d.out().b = d.source(2, Type::u32);
  d.out().flags = shared ? 0 : 1;
}

void decode_getctarank(Decoder& d) {
  d.take("shared::cluster");
  d.unary(cluster_rank, d.take_type());
}

}  // namespace lathe::ptx
