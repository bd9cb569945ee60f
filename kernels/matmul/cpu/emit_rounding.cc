#include "kernels/matmul/cpu/emit_rounding.h"

#include <algorithm>

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kGroup = ByteFormat::kGroup, kWords = ByteFormat::kWords, kLeastLanes = 8;
// The hardware prefetchers follow a stream in each page, so fields lie in another one than bytes.
constexpr int64_t kPageWords = 1024;
constexpr int32_t kInfinityBits = 0x7f800000, kNanBits = 0x7fc00000;
constexpr int32_t kRoundingBits = 0x4b400000;  // 1.5 * 2^23, where the spacing of floats is 1

// Rounds rows of A.
class Rounding : Lanes {
 public:
  Rounding(Emit& emit, const CpuTile& tile, const ByteFormat& format, const RoundedRows& rows, int64_t first)
      : Lanes{emit, rows.lanes},
        t(tile),
        f(format),
        layout(rows),
        first(first),
        groups(e.div(t.depth, e.idx(kGroup))) {}

  void run() {
    Value padded_rows = e.mul(e.ceil_div(t.rows, e.idx(t.register_rows)), t.register_rows);
    e.loop(e.idx(0), padded_rows, 1, [&](Value i) {
      Value row = row_of_a(e, t, i);
      e.loop(e.idx(0), groups, lanes, [&](Value g) { round_groups(i, row, g); });
    });
  }

 private:
  // Reduces as many vectors as there are lanes to one: lane l is the combination of all lanes of vector l.
  Value across(Values x, const std::function<Value(Value, Value)>& combine) {
    for (int64_t length = lanes; length > 1; length /= 2) {
      SmallVector<int64_t> lower, upper;
      for (int64_t part = 0; part < lanes; part += length)
        for (int64_t from : {int64_t{0}, lanes})
          for (int64_t l = 0; l < length / 2; ++l) {
            lower.push_back(from + part + l);
            upper.push_back(from + part + l + length / 2);
          }
      const size_t half = x.size() / 2;
      for (size_t v = 0; v < half; ++v)
        x[v] = combine(shuffle(x[v], x[v + half], lower), shuffle(x[v], x[v + half], upper));
      x.truncate(half);
    }
    return x[0];
  }
  Value sum_across(const Values& x) {
    return across(x, [&](Value a, Value b) { return add(a, b); });
  }
  // The largest lane of the groups of each block, in all of them.
  Value of_blocks(Value x) {
    for (int64_t by = 1; by < f.groups(); by *= 2) {
      SmallVector<int64_t> mask;
      for (int64_t l = 0; l < lanes; ++l) mask.push_back(l ^ by);
      x = max(x, shuffle(x, x, mask));
    }
    return x;
  }
  Value all_of_lane(Value x, int64_t lane) {
    return shuffle(x, x, SmallVector<int64_t>(static_cast<size_t>(lanes), lane));
  }
  // To f16 and back.
  Value halved(Value x) {
    return e.to_f32(arith::TruncFOp::create(e.b, e.loc, e.vec(lanes, e.b.getF16Type()), x));
  }

  // The group in lane q; past the end the last block again.
  Value group_of_lane(Value g, int64_t q) {
    const int64_t block = f.groups(), first = q / block * block;
    return e.add(e.min(e.add(g, first), e.sub(groups, e.idx(block))), q - first);
  }

  // Rounds as many groups as there are lanes. A number becomes a byte when its quotient by the scale is added to
  // 1.5 * 2^23: the last bits of the sum are then the rounded quotient. A block with a NaN or an infinity gets NaN as its
  // scale. Where the reciprocal of a scale overflows, the scale itself is 0, and so are the products.
  void round_groups(Value i, Value row, Value g) {
    Value to = e.add(layout.row(e, i), first);
    const int64_t vectors = kGroup / lanes;
    Values magnitudes;
    const auto load = [&](int64_t q, int64_t v) -> Value {
      Value from = e.add(row, e.mul(group_of_lane(g, q), kGroup));
      return e.to_f32(e.load_vector(t.a.memory, e.add(from, v * lanes), lanes));
    };
    for (int64_t q = 0; q < lanes; ++q) {
      Value most;
      for (int64_t v = 0; v < vectors; ++v) {
        Value bits = masked(as(i32s(), load(q, v)), 0x7fffffff);
        most = most ? max(most, bits) : bits;
      }
      magnitudes.push_back(most);
    }
    // The bits of the largest magnitude; those of a NaN are above those of infinity.
    Value bits = of_blocks(across(magnitudes, [&](Value x, Value y) { return max(x, y); }));
    Value finite = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, bits, all(kInfinityBits));
    Value most = as(f32s(), bits), of_127 = e.splat(f32s(), 127);
    Value inverse = arith::DivFOp::create(e.b, e.loc, of_127, most);
    Value exact = f.halves_a_scale() ? arith::DivFOp::create(e.b, e.loc, most, of_127)
                                     : arith::DivFOp::create(e.b, e.loc, e.splat(f32s(), 1), inverse);
    Value scale = f.halves_a_scale() ? halved(exact) : exact;
    scale = select(e, finite, scale, as(f32s(), all(kNanBits)));
    e.store_vector(scale, t.packing, e.add(e.add(to, layout.scales), g));

    // The sums of the parts of a group: of the halves if each has a scale, else of all of it.
    const int64_t parts = f.scales_of_group();
    const int64_t step = layout.order == RoundedRows::Bytes::kInPairs ? RoundedRows::kPairStep : lanes / 4;
    std::vector<Values> sums(static_cast<size_t>(parts));
    for (int64_t q = 0; q < lanes; ++q) {
      Value at = e.add(layout.bytes(e, i, group_of_lane(g, q)), first), by = all_of_lane(inverse, q);
      Value sum;
      for (int64_t v = 0; v < vectors; ++v) {
        Value x = as(i32s(), add(mul(load(q, v), by), as(f32s(), all(kRoundingBits))));
        Value bytes = arith::TruncIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI8Type()), x);
        e.store_vector(as(e.vec(lanes / 4, e.f32()), bytes), t.packing, e.add(at, v * step));
        sum = sum ? add(sum, x) : x;
        if ((v + 1) % (vectors / parts) == 0) {
          sums[static_cast<size_t>((v + 1) * parts / vectors - 1)].push_back(sum);
          sum = nullptr;
        }
      }
    }
    Values totals;
    for (const Values& part : sums) {
      const auto rounding = static_cast<uint32_t>(kRoundingBits) * static_cast<uint32_t>(kGroup / parts);
      totals.push_back(sub(sum_across(part), all(static_cast<int32_t>(rounding))));
    }
    if (f.offset && layout.order != RoundedRows::Bytes::kInTiles) store_firsts(to, g, totals);
    if (f.has_minimum) store_minima(to, g, totals[0], exact);
  }

  // What the offset of the weights' bytes adds, negated.
  void store_firsts(Value to, Value g, const Values& totals) {
    Values firsts;
    for (Value total : totals) firsts.push_back(as(f32s(), mul(total, all(-f.offset))));
    Value at = e.add(e.add(to, layout.firsts), e.mul(g, f.scales_of_group()));
    if (firsts.size() == 1) return e.store_vector(firsts[0], t.packing, at);
    for (int64_t part = 0; part < 2; ++part) {  // interleaves the sums of both halves
      SmallVector<int64_t> mask;
      for (int64_t l = part * lanes / 2; l < (part + 1) * lanes / 2; ++l)
        for (int64_t from : {int64_t{0}, lanes}) mask.push_back(from + l);
      e.store_vector(shuffle(firsts[0], firsts[1], mask), t.packing, e.add(at, part * lanes));
    }
  }

  // One minimum per block: the sum of A's rounded numbers, rounded to f16. Minima of groups: the sums of the bytes of two
  // groups as two i16.
  void store_minima(Value to, Value g, Value total, Value scale) {
    Value at = e.add(to, layout.minima);
    if (f.halves_a_scale()) return e.store_vector(halved(mul(scale, to_f32(total))), t.packing, e.add(at, g));
    SmallVector<int64_t> even, odd;
    for (int64_t l = 0; l < lanes; l += 2) even.push_back(l), odd.push_back(l + 1);
    Value low = masked(shuffle(total, total, even), 0xffff), high = up(shuffle(total, total, odd), 16);
    Value both = either(low, high);
    e.store_vector(as(e.vec(lanes / 2, e.f32()), both), t.packing, e.add(at, e.div(g, e.idx(2))));
  }

  const CpuTile& t;
  const ByteFormat& f;
  const RoundedRows& layout;
  const int64_t first;
  Value groups;
};

}  // namespace

RoundedRows::RoundedRows(const ByteFormat& f, int64_t rows, int64_t depth, int64_t tile_lanes, Bytes order,
                         int64_t tile_groups, int64_t tile_rows)
    : order(order),
      lanes(std::max(tile_lanes, kLeastLanes)),
      tile_groups(tile_groups),
      tile_rows(order == Bytes::kInPairs ? 2 : tile_rows),
      groups(round_up(ceil_div(depth, kGroup), lanes)) {
  const bool by_row = order == Bytes::kByRow;
  tiles = by_row ? 0 : round_up(round_up(rows, this->tile_rows) * groups * kWords, kPageWords);
  scales = by_row ? groups * kWords : 0;
  firsts = scales + groups;
  minima = firsts + (f.offset && order != Bytes::kInTiles ? groups * f.scales_of_group() : 0);
  // The padding keeps rows from starting in the same cache set.
  pitch = round_up(minima + (f.has_minimum ? groups : 0), 16) + 16;
  words = tiles + rows * pitch;
}

Value RoundedRows::bytes(Emit& e, Value i, Value group) const {
  if (order == Bytes::kByRow) return e.add(row(e, i), e.mul(group, kWords));
  if (order == Bytes::kInPairs) {
    Value pair = e.mul(e.add(e.mul(e.div(i, e.idx(2)), groups), group), 2 * kWords);
    return e.add(pair, e.mul(e.rem(i, e.idx(2)), kPairStep / 2));
  }
  Value tile = e.mul(e.div(i, e.idx(tile_rows)), groups * tile_rows * kWords);
  Value step = e.mul(e.div(group, e.idx(tile_groups)), tile_groups * tile_rows * kWords);
  Value line = e.mul(e.rem(i, e.idx(tile_rows)), tile_groups * kWords);
  return e.add(e.add(tile, step), e.add(line, e.mul(e.rem(group, e.idx(tile_groups)), kWords)));
}

void round_rows(Emit& e, const CpuTile& t, const ByteFormat& f, const RoundedRows& rows, int64_t first) {
  Rounding(e, t, f, rows, first).run();
}

}  // namespace lathe::emit
