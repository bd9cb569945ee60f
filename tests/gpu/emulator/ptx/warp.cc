// Operations across the lanes of a warp: shfl, vote, match, redux, elect, activemask.
#include <algorithm>
#include <cmath>

#include "tests/gpu/emulator/ptx/machine.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

Thread* warp_of(Thread& t) { return &t.block->threads[t.warp * 32]; }

template <class F>
void for_lanes(uint32_t lanes, F f) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) f(static_cast<uint32_t>(__builtin_ctz(rest)));
}

// The list: the slot of the predicate or kNone, of the clamp, of the mask. flags: 0 up, 1 down, 2 bfly, 3 idx.
Step shuffle_all(Thread& t, const Instruction& i, uint32_t lanes) {
  Thread* warp = warp_of(t);
  const uint32_t* list = t.block->machine->kernel.lists.data() + i.list;
  uint64_t values[32] = {};
  for_lanes(lanes, [&](uint32_t lane) { values[lane] = warp[lane].r[i.a] & 0xffffffff; });
  for_lanes(lanes, [&](uint32_t lane) {
    uint64_t* r = warp[lane].r;
    const int32_t b = static_cast<int32_t>(r[i.b] & 0x1f), c = static_cast<int32_t>(r[list[1]]);
    const int32_t clamp = c & 0x1f, segment = (c >> 8) & 0x1f, self = static_cast<int32_t>(lane);
    const int32_t most = (self & segment) | (clamp & ~segment), least = self & segment;
    int32_t from = 0;
    bool inside = false;
    switch (i.flags) {
      case 0:
        from = self - b;
        inside = from >= most;
        break;
      case 1:
        from = self + b;
        inside = from <= most;
        break;
      case 2:
        from = self ^ b;
        inside = from <= most;
        break;
      default:
        from = least | (b & ~segment);
        inside = from <= most;
        break;
    }
    if (!inside) from = self;
    // The value of a lane outside the mask is undefined, so it is poisoned.
    r[i.d] = ((lanes >> from) & 1) != 0 ? values[from] : 0xffffffff;
    if (list[0] != kNone) r[list[0]] = inside;
  });
  return Step::next;
}
Step shuffle(Thread& t, const Instruction& i) {
  const uint32_t mask = t.block->machine->kernel.lists[i.list + 2];
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[mask]), shuffle_all);
}

// vote. flags: 0 all, 1 any, 2 uni, 3 ballot. a: the predicate as slot * 2 + negated.
Step vote_all(Thread& t, const Instruction& i, uint32_t lanes) {
  Thread* warp = warp_of(t);
  uint32_t ballot = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    if ((warp[lane].r[i.a >> 1] & 1) != (i.a & 1)) ballot |= 1u << lane;
  });
  const uint32_t result = i.flags == 0   ? ballot == lanes
                          : i.flags == 1 ? ballot != 0
                          : i.flags == 2 ? ballot == 0 || ballot == lanes
                                         : ballot;
  for_lanes(lanes, [&](uint32_t lane) { warp[lane].r[i.d] = result; });
  return Step::next;
}
Step vote(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[i.b]), vote_all);
}

// match. flags: 1 all, 2 for 64-bit values. c: the predicate of match.all.
Step match_all(Thread& t, const Instruction& i, uint32_t lanes) {
  Thread* warp = warp_of(t);
  const uint64_t bits = (i.flags & 2) != 0 ? ~uint64_t{0} : 0xffffffff;
  uint32_t masks[32] = {};
  for_lanes(lanes, [&](uint32_t lane) {
    for_lanes(lanes, [&](uint32_t other) {
      if (((warp[lane].r[i.a] ^ warp[other].r[i.a]) & bits) == 0) masks[lane] |= 1u << other;
    });
  });
  for_lanes(lanes, [&](uint32_t lane) {
    const bool same = masks[lane] == lanes;
    if ((i.flags & 1) != 0) warp[lane].r[i.c] = same;
    warp[lane].r[i.d] = (i.flags & 1) != 0 && !same ? 0 : masks[lane];
  });
  return Step::next;
}
Step match(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[i.b]), match_all);
}

// redux. flags: operation | 8 signed | 16 f32 | 32 abs | 64 NaN.
enum { kRedAdd, kRedMin, kRedMax, kRedAnd, kRedOr, kRedXor };
Step reduce_all(Thread& t, const Instruction& i, uint32_t lanes) {
  Thread* warp = warp_of(t);
  const int op = i.flags & 7;
  bool first = true;
  uint32_t result = 0;
  for_lanes(lanes, [&](uint32_t lane) {
    const uint32_t value = static_cast<uint32_t>(warp[lane].r[i.a]);
    if (first) {
      result = value;
      first = false;
      if ((i.flags & 32) != 0) result &= 0x7fffffff;
      return;
    }
    if ((i.flags & 16) != 0) {
      float x = from_bits<float>(result),
            y = from_bits<float>((i.flags & 32) != 0 ? value & 0x7fffffff : value);
      if (std::isnan(x) || std::isnan(y)) {
        x = (i.flags & 64) != 0 ? NAN : std::isnan(x) ? y : x;
      } else {
        x = op == kRedMin ? std::min(x, y) : std::max(x, y);
      }
      result = static_cast<uint32_t>(to_bits(x));
      return;
    }
    const bool less =
        (i.flags & 8) != 0 ? static_cast<int32_t>(value) < static_cast<int32_t>(result) : value < result;
    switch (op) {
      case kRedAdd: result += value; break;
      case kRedMin: result = less ? value : result; break;
      case kRedMax: result = less ? result : value; break;
      case kRedAnd: result &= value; break;
      case kRedOr: result |= value; break;
      default: result ^= value; break;
    }
  });
  for_lanes(lanes, [&](uint32_t lane) { warp[lane].r[i.d] = result; });
  return Step::next;
}
Step reduce(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[i.b]), reduce_all);
}

// The leader may be any lane of the mask, but it is always the same lane for the same mask.
Step elect_all(Thread& t, const Instruction& i, uint32_t lanes) {
  Thread* warp = warp_of(t);
  const uint64_t hash = (t.block->machine->options.seed + lanes) * 0x9e3779b97f4a7c15u >> 32;
  uint32_t skip = static_cast<uint32_t>(hash % static_cast<uint32_t>(__builtin_popcount(lanes))),
           leader = lanes;
  for (; skip > 0; --skip) leader &= leader - 1;
  const uint32_t lane_of_leader = static_cast<uint32_t>(__builtin_ctz(leader));
  for_lanes(lanes, [&](uint32_t lane) {
    warp[lane].r[i.d] = lane_of_leader;
    warp[lane].r[i.c] = lane == lane_of_leader;
  });
  return Step::next;
}
Step elect(Thread& t, const Instruction& i) {
  return t.block->machine->converge(t, i, static_cast<uint32_t>(t.r[i.a]), elect_all);
}

// The hardware decides which lanes are active together; only the own lane is guaranteed.
Step active_mask(Thread& t, const Instruction& i) {
  t.r[i.d] = 1u << t.lane;
  return Step::next;
}

}  // namespace

void decode_shfl(Decoder& d) {
  if (!d.take("sync")) return d.fail("only the .sync form is supported");
  const int mode = d.take_one_of({"up", "down", "bfly", "idx"});
  d.take_type();
  if (mode < 0) return d.fail("a mode is missing");
  d.binary(shuffle, Type::b32);
  d.append(d.operand(0).pair.empty() ? kNone : d.pair_destination(0));
  d.append(d.source(3, Type::b32));
  d.append(d.source(4, Type::b32));
  d.out().flags = static_cast<uint16_t>(mode);
}

void decode_vote(Decoder& d) {
  if (!d.take("sync")) return d.fail("only the .sync form is supported");
  const int mode = d.take_one_of({"all", "any", "uni", "ballot"});
  d.take_type();
  d.out().d = d.destination(0);
  d.out().a = d.predicate(1);
  d.out().b = d.source(2, Type::b32);
  d.out().flags = static_cast<uint16_t>(mode);
  d.run(mode < 0 ? nullptr : vote);
}

void decode_match(Decoder& d) {
  const int mode = d.take_one_of({"any", "all"});
  d.take("sync");
  const Type type = d.take_type();
  d.binary(mode < 0 ? nullptr : match, type);
  d.out().flags = static_cast<uint16_t>((mode == 1 ? 1 : 0) | (type_size(type) == 8 ? 2 : 0));
  if (mode == 1) d.out().c = d.pair_destination(0);
}

void decode_redux(Decoder& d) {
  d.take("sync");
  const int op = d.take_one_of({"add", "min", "max", "and", "or", "xor"});
  const bool abs = d.take("abs"), nan = d.take("NaN");
  const Type type = d.take_type();
  d.binary(op < 0 ? nullptr : reduce, type);
  d.out().flags = static_cast<uint16_t>(op | (is_signed(type) ? 8 : 0) | (type == Type::f32 ? 16 : 0) |
                                        (abs ? 32 : 0) | (nan ? 64 : 0));
}

void decode_elect(Decoder& d) {
  d.take("sync");
  d.out().d = d.destination(0);
  d.out().c = d.pair_destination(0);
  d.out().a = d.source(1, Type::b32);
  d.run(elect);
}

void decode_activemask(Decoder& d) {
  d.take_type();
  d.out().d = d.destination(0);
  d.run(active_mask);
}

}  // namespace lathe::ptx
