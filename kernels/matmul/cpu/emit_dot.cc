// "dot": for few rows of A and weights stored N by K. Every row of B is streamed from memory once and
// multiplied with register_m rows of A at a time. register_m x register_n vector accumulators run along K
// and are summed across lanes at the end. Rows and columns past the edge read the last one again; their
// products land in the padding of the accumulators.
//
// With tile_k, K is divided into blocks, each multiplied with a group of columns, and A is packed block by
// block, so that what a block needs of A stays in L1 while B streams. Without packing, rows of A that are a
// power of two apart share cache sets and are evicted. Sums wait in scratch memory between blocks, so the
// numbers are the same. Either every pass over the rows takes the whole group, whose columns stay in L2
// meanwhile, or all passes take one tile of columns after the other (CpuFetch::kSpread).
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_pack.h"
#include "kernels/matmul/cpu/shape.h"
#include "kernels/matmul/emit_blocks.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kLineBytes = 64;
int64_t padded_rows(const CpuTile& t) { return round_up(t.tile_rows, t.register_rows); }
int64_t copied_pitch(const CpuTile& t) {
  return round_up(t.most_depth, t.words.width()) / t.words.per_lane();
}
// Words of packing memory: A, then a start value (a vector) for each of its rows, then sums.
int64_t packed_words(const CpuTile& t) {
  if (t.copy_rows) return padded_rows(t) * copied_pitch(t) + kWayBytes / 4;
  return t.tile_k ? padded_rows(t) * round_up(t.most_depth, t.tile_k) / t.words.per_lane() : 0;
}
int64_t first_words(const CpuTile& t) { return t.words.shifts() ? padded_rows(t) * t.lanes : 0; }

class Dot {
 public:
  Dot(Emit& emit, const CpuTile& tile)
      : e(emit),
        t(tile),
        rm(t.register_rows),
        rn(t.register_columns),
        lanes(t.lanes),
        width(t.words.width()),
        vectors(CpuBlocks::holds(t.b) ? CpuBlocks::elements(t.b) / t.lanes : 1),
        last_column(e.sub(t.columns, e.idx(1))) {}

  void run() {
    CpuNest nest;
    nest.pass_columns = rn;
    if (t.tile_k > 0) {
      nest.group_columns = t.group_n;
      nest.rows_first = t.fetch != CpuFetch::kSpread;
      nest.begin_group = [this](const NestBlock&) { store_first_sums(); };
      nest.end_group = [this](const NestBlock& group) { sum_lanes(group.column0, group.columns); };
      nest.tile = [this](const NestBlock& block, const NestRows& rows, const NestColumns& columns) {
        this->block(block, rows.i, columns.j);
      };
      pack_a();
      store_first();
      return emit_nest(e, t, nest);
    }
    store_first();
    Value copy = t.copy_rows ? copy_a() : nullptr;
    nest.tile = [this, copy](const NestBlock&, const NestRows& rows, const NestColumns& columns) {
      whole(rows.i, columns.j, copy);
    };
    emit_nest(e, t, nest);
  }

 private:
  // Without K blocks: rows i.. by columns j.. over all of K. `copy`: of A, if there is one.
  void whole(Value i, Value j, Value copy) {
    const int64_t passes = ceil_div(t.tile_rows, rm);
    Values a_row;
    for (int64_t r = 0; r < rm; ++r)
      a_row.push_back(copy ? row_of_copy(copy, e.add(i, r)) : row_of_a(e, t, e.add(i, r)));
    Value next = e.add(j, rn);
    Value shared = e.add(next, e.mul(e.div(i, e.idx(rm)), ceil_div(rn, passes)));
    // If rows are shorter than the prefetch distance, it reaches several groups ahead.
    const int64_t groups =
        std::max<int64_t>(1, elements_in(bytes_ahead(t.fetch)) / std::max<int64_t>(1, t.most_depth));
    Value after = select(e, e.less(e.add(i, rm), t.rows), e.idx(0), rows_apart(rn * groups));
    Rows b = {rows_of_b(j, rn, e.idx(0)), after, {}};
    if (fetches_next(t.fetch)) b.next = rows_of_b(shared, ceil_div(rn, passes), e.idx(0));
    Values sums = along_k(t.depth, first(i), b, [&](int64_t r, Value k, Value left) {
      if (copy) return t.words.words_of(scratch(e.add(a_row[r], t.words.count(k))));
      return t.words.along_k(t.a, e.add(a_row[r], k), left);
    });
    for (int64_t c = 0; c < rn; ++c) {
      Value of_zero = t.zero_point ? of_zero_point(sums[rm * rn + c]) : Value();
      for (int64_t r = 0; r < rm; ++r) {
        Value sum = t.words.reduce(sums[r * rn + c]);
        if (of_zero) sum = t.words.sub(sum, of_zero);
        e.store(as_f32(sum), t.accumulators, e.add(e.mul(e.add(i, r), t.ld), e.add(j, c)));
      }
    }
  }

  Values rows_of_b(Value j, int64_t count, Value k) {
    Values rows;
    for (int64_t c = 0; c < count; ++c)
      rows.push_back(e.add(e.add(t.b.offset, e.mul(e.min(e.add(j, c), last_column), t.b.row_stride)), k));
    return rows;
  }
  Value as_f32(Value sum) {
    return sum.getType().isF32() ? sum : Value(arith::BitcastOp::create(e.b, e.loc, e.f32(), sum));
  }

  // Stores what the sums of rows of A start from: 0, or the negated contribution of shifted words of B.
  void store_first() {
    if (!t.words.shifts()) return;
    e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
      Value sum = sum_along_k(e, t.words, t.a, row_of_a(e, t, i), t.depth);
      e.store_vector(t.words.to_scratch(t.words.unshift(sum)), t.packing, first_at(i));
    });
  }
  Value first_at(Value i) { return e.add(e.idx(packed_words(t)), e.mul(i, lanes)); }
  Value first_of_row(Value i) {
    if (!t.words.shifts()) return t.words.zero_sums();
    return sums_at(first_at(i));
  }
  Values first(Value i) {
    Values sums;
    for (int64_t r = 0; r < rm; ++r) sums.append(rn, first_of_row(e.add(i, r)));
    if (t.zero_point) sums.append(rn, t.words.zero_sums());  // sums of B's rows
    return sums;
  }

  // The zero point times the sum of a row of B, whose lanes are given. Elements past the end of K are 0,
  // but shifted.
  Value of_zero_point(Value lane_sums) {
    Value elements = e.mul(e.ceil_div(t.depth, e.idx(width)), width);
    Value sum = t.words.sub(t.words.reduce(lane_sums), e.to_i32(t.words.shift_of(elements)));
    return t.words.mul(sum, t.zero_point);
  }

  Value rows_apart(int64_t count) { return e.mul(e.idx(count), t.b.row_stride); }

  // Rows of B: the current ones, the distance from them to the elements that are read after them, and the
  // rows of which as many lines are prefetched into L2 meanwhile.
  struct Rows {
    Values read;
    Value after;
    Values next;
  };
  // A vector of K of a row of A, cut to `left` elements if given.
  using VectorOfA = std::function<Value(int64_t r, Value k, Value left)>;
  // A step along K: a vector of each row of B, or a whole block of it, by those of A.
  Values step(const Rows& rows, const VectorOfA& a, Value k, Values sums, Value left) {
    if (vectors == 1) return piece(rows, a, k, 0, sums, left);
    for (int64_t inside = 0; inside < CpuBlocks::elements(t.b); inside += CpuBlocks::kPiece)
      sums = piece(rows, a, k, inside, sums, left);
    return sums;
  }
  // The part of a step from element `inside` on: in a block, as many elements as registers hold of every row.
  Values piece(const Rows& rows, const VectorOfA& a, Value k, int64_t inside, Values sums, Value left) {
    const int64_t vectors = this->vectors == 1 ? 1 : CpuBlocks::kPiece / lanes;
    std::vector<Values> b(rn);
    const auto load_b = [&](int64_t c) { b[c] = vectors_of_b(e.add(rows.read[c], k), inside, left); };
    const auto multiply = [&](int64_t r, Value x, int64_t c, int64_t v) {
      sums[r * rn + c] = t.words.multiply_add(x, b[c][v], sums[r * rn + c]);
    };
    // The vectors of the shorter side stay in registers.
    if (rm < rn && vectors == 1) {
      Values x;
      for (int64_t r = 0; r < rm; ++r) x.push_back(a(r, k, left));
      for (int64_t c = 0; c < rn; ++c) {
        load_b(c);
        for (int64_t r = 0; r < rm; ++r) multiply(r, x[r], c, 0);
      }
    } else {
      for (int64_t c = 0; c < rn; ++c) load_b(c);
      for (int64_t v = 0; v < vectors; ++v)
        for (int64_t r = 0; r < rm; ++r) {
          Value x = a(r, e.add(k, inside + v * width), left);
          for (int64_t c = 0; c < rn; ++c) multiply(r, x, c, v);
        }
    }
    for (int64_t c = 0; t.zero_point && c < rn; ++c)
      sums[rm * rn + c] = t.words.add_b(b[c][0], sums[rm * rn + c]);
    return sums;
  }
  // Prefetches `count` cache lines of each row of B from element k on.
  void fetch(const Values& rows, Value k, int64_t count, int locality) {
    for (Value row : rows)
      for (int64_t line = 0; line < count; ++line) {
        Value at = vectors > 1 ? e.add(place_in_b(e.add(row, k)), line * kLineBytes)
                               : e.add(e.add(row, k), line * elements_in(kLineBytes));
        e.prefetch(t.b.memory, at, locality);
      }
  }
  // Adds the products of register_m rows of A with the rows of B over `depth` of K to `sums`, vector by vector,
  // while it prefetches lines.
  Values along_k(Value depth, Values sums, const Rows& rows, const VectorOfA& a) {
    const int64_t unroll = t.unroll_k, most = vectors * width;
    Value unrolled = e.mul(e.div(depth, e.idx(most * unroll)), most * unroll);
    Value whole = e.mul(e.div(depth, e.idx(most)), most);
    // Near the end of the rows it prefetches what is read after them. All rows share one distance, although
    // some are past the last row: with one distance each, large tiles run out of registers.
    const int64_t near = round_up(elements_in(bytes_ahead(t.fetch)), most * unroll);
    Value inside = e.sub(depth, e.min(depth, e.idx(near)));
    // Prefetches the end of each cache line: a K block that begins within a line ends in one more, and the
    // line at its beginning came with the block before.
    const int locality = t.fetch == CpuFetch::kSpread ? kIntoL1 : kIntoL2;
    const int64_t to_end = t.tile_k > 0 && vectors == 1 ? elements_in(kLineBytes) - 1 : 0;
    const auto steps = [&](Value from, Value to, int64_t turn) {
      sums = paced_loop(e, t, from, to, turn * most, sums, [&](Value now, Value late, const Values& carried) {
        Value ahead = select(e, e.less(now, inside), e.idx(near), e.sub(rows.after, inside));
        Value k = e.add(now, late);
        Values after = carried;
        for (int64_t u = 0; u < turn; ++u) {
          Value at = e.add(k, u * most);
          if (u % steps_of_line() == 0) {
            if (near > 0)
              fetch(rows.read, e.add(e.add(k, ahead), u * most), lines_of_step(),
                    fetches_near(t.fetch) ? kIntoL1 : kIntoL2);
            if (!rows.next.empty())
              fetch(rows.next, e.add(at, to_end), vectors > 1 ? lines_of_step() : 1, locality);
          }
          after = step(rows, a, at, after, nullptr);
        }
        return after;
      });
    };
    steps(e.idx(0), unrolled, unroll);
    if (unroll > 1) steps(unrolled, whole, 1);
    const auto total = Emit::known(t.depth);
    if (vectors > 1 || (total && *total % width == 0)) return sums;
    return e.choose(
        e.less(whole, depth), sums, [&] { return step(rows, a, whole, sums, e.sub(depth, whole)); },
        [&] { return sums; });
  }

  // Elements of a row of B in `bytes` bytes: those of whole blocks, but of one at least.
  int64_t elements_in(int64_t bytes) const {
    return CpuBlocks::holds(t.b)
               ? std::max(CpuBlocks::elements_in(t.b, bytes), bytes > 0 ? vectors * lanes : 0)
               : bytes * 8 / t.b.element.getIntOrFloatBitWidth();
  }
  // Steps that read one cache line of a row of B, and cache lines that one step reads.
  int64_t steps_of_line() const { return std::max<int64_t>(1, elements_in(kLineBytes) / (vectors * width)); }
  int64_t lines_of_step() const {
    if (vectors > 1) return ceil_div(CpuBlocks::bytes(t.b), kLineBytes);
    return std::max<int64_t>(1, width / elements_in(kLineBytes));
  }

  // What a step takes of a row of B at once: a vector, or a piece of a block.
  Values vectors_of_b(Value at, int64_t inside, Value left) {
    if (vectors > 1) return CpuBlocks(e, lanes, t.b).piece(at, inside);
    return {t.words.shifted(t.words.along_k(t.b, at, left))};
  }
  Value place_in_b(Value at) { return vectors > 1 ? CpuBlocks(e, lanes, t.b).byte_of(at) : at; }

  // --- With tile_k. The packing memory: A as [K block][row][tile_k], start values, then sums as
  // [row][column of the group], a vector each.
  Value sums_base() { return e.idx(packed_words(t) + first_words(t)); }
  Value sum_at(Value i, Value c) { return e.add(sums_base(), e.mul(e.add(e.mul(i, t.group_n), c), lanes)); }
  Value block_of_a(Value k0, Value i) {
    return e.add(e.mul(t.words.count(k0), padded_rows(t)), e.mul(i, t.tile_k / t.words.per_lane()));
  }

  void pack_a() {
    e.loop(e.idx(0), t.depth, t.tile_k, [&](Value k0) {
      Value length = e.min(e.idx(t.tile_k), e.sub(t.depth, k0));
      e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
        copy_line(e, t, {t.a, e.add(row_of_a(e, t, i), k0), length}, block_of_a(k0, i));
      });
    });
  }

  // Copies A half a cache way away from B; returns its offset in the packing memory.
  Value copy_a() {
    Value of_b = e.add(address_of(e, t.b.memory, t.b.offset), kWayBytes / 2);
    Value from_b = e.sub(of_b, address_of(e, t.packing, e.idx(0)));
    Value line = e.rem(e.div(from_b, e.idx(kLineBytes)), e.idx(kWayBytes / kLineBytes));
    Value copy = e.mul(line, kLineBytes / 4);
    e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
      copy_line(e, t, {t.a, row_of_a(e, t, i), t.depth}, row_of_copy(copy, i));
    });
    return copy;
  }
  Value row_of_copy(Value copy, Value i) { return e.add(copy, e.mul(i, copied_pitch(t))); }

  // With K blocks: what each of the group's sums starts from.
  void store_first_sums() {
    e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
      Value x = t.words.to_scratch(first_of_row(i));
      e.loop(e.idx(0), e.idx(t.group_n), 1, [&](Value c) { e.store_vector(x, t.packing, sum_at(i, c)); });
    });
  }

  // Adds the products of rows i.. and the group's columns c.. over a K block to their sums. The passes over
  // the rows share the prefetching of the next block, or with kSpread of the columns a few further on.
  void block(const NestBlock& now, Value i, Value c) {
    const int64_t kc = t.tile_k, share = ceil_div(rn, ceil_div(t.tile_rows, rm));
    Value j0 = now.column0, columns = now.columns, k0 = now.k0;
    Value same_group = e.less(e.add(k0, kc), t.depth);
    Value next_k = select(e, same_group, e.add(k0, kc), e.idx(0));
    Value next_group = select(e, same_group, j0, e.add(j0, t.group_n));
    Value fetched_k = next_k, fetched = e.add(next_group, c);
    if (t.fetch == CpuFetch::kSpread) {
      Value on = e.add(c, round_up(kColumnsOn, rn)), same_block = e.less(on, columns);
      fetched_k = select(e, same_block, k0, next_k);
      fetched = select(e, same_block, e.add(j0, on), e.add(next_group, e.sub(on, columns)));
    }
    Value shared = e.add(fetched, e.mul(e.div(i, e.idx(rm)), share));
    Value more = e.less(e.add(c, rn), columns), again = e.less(e.add(i, rm), t.rows);
    Value to_group = e.mul(e.sub(next_group, j0), t.b.row_stride), to_first = e.mul(c, t.b.row_stride);
    Value to_block = select(e, again, e.idx(0), e.sub(e.add(to_group, next_k), k0));
    Value after = select(e, more, rows_apart(rn), e.sub(to_block, to_first));

    Values sums;
    for (int64_t r = 0; r < rm; ++r)
      for (int64_t q = 0; q < rn; ++q) sums.push_back(sums_at(sum_at(e.add(i, r), e.add(c, q))));
    Values a_row;
    for (int64_t r = 0; r < rm; ++r) a_row.push_back(block_of_a(k0, e.add(i, r)));
    Rows b = {rows_of_b(e.add(j0, c), rn, k0), after, {}};
    if (fetches_next(t.fetch) || t.fetch == CpuFetch::kSpread) b.next = rows_of_b(shared, share, fetched_k);
    sums = along_k(now.depth, sums, b, [&](int64_t r, Value k, Value) {
      return t.words.words_of(scratch(e.add(a_row[r], t.words.count(k))));
    });
    for (int64_t r = 0; r < rm; ++r)
      for (int64_t q = 0; q < rn; ++q)
        e.store_vector(t.words.to_scratch(sums[r * rn + q]), t.packing, sum_at(e.add(i, r), e.add(c, q)));
  }
  Value scratch(Value at) { return e.load_vector(t.packing, at, lanes); }
  Value sums_at(Value at) { return t.words.sums_of(scratch(at)); }

  // Sums the group's accumulators across their lanes: transposes `lanes` columns at a time and adds.
  void sum_lanes(Value j0, Value columns) {
    e.loop(e.idx(0), t.rows, 1, [&](Value i) {
      e.loop(e.idx(0), columns, lanes, [&](Value c) {
        Values part;
        for (int64_t q = 0; q < lanes; ++q) part.push_back(sums_at(sum_at(i, e.add(c, q))));
        part = e.transpose(part);
        for (size_t half = part.size() / 2; half > 0; half /= 2)
          for (size_t q = 0; q < half; ++q) part[q] = t.words.add(part[q], part[q + half]);
        e.store_vector(t.words.to_scratch(part[0]), t.accumulators, e.add(e.mul(i, t.ld), e.add(j0, c)));
      });
    });
  }

  Emit& e;
  const CpuTile& t;
  const int64_t rm, rn, lanes, width;  // width: elements of K in a vector
  const int64_t vectors;               // vectors of a row of B per step
  Value last_column;
};

int64_t packing_words(const CpuTile& t) {
  if (t.tile_k == 0) return packed_words(t) + first_words(t);
  // The last column's vectors are read in groups of lanes.
  return packed_words(t) + first_words(t) + (padded_rows(t) * t.group_n + t.lanes) * t.lanes;
}

std::string refusal(const CpuTile& t) {
  if (!t.a_k_contiguous || !t.b_k_contiguous) return "needs both operands K-contiguous";
  if (t.b.lists_rows()) return "streams rows of A that follow each other at one distance";
  if (t.fetch == CpuFetch::kNoChoice || t.fetch > CpuFetch::kFar ||
      (t.fetch == CpuFetch::kSpread && t.tile_k == 0))
    return "prefetch must be 1 to 5 or 7; 6 needs a tile_k";
  if ((t.tile_k > 0) != (t.group_n > 0) || t.group_n % t.register_columns != 0)
    return absl::StrCat("group_n ", t.group_n, " must be a multiple of register_n ", t.register_columns,
                        " if tile_k is set, and 0 otherwise");
  if (t.tile_k % t.words.width() != 0) return "tile_k is not a multiple of a vector's elements";
  if (t.copy_rows && (t.tile_k > 0 || CpuBlocks::holds(t.b)))
    return "copy_rows must be 0 if B is in blocks or tile_k is set, which packs A";
  return "";
}

void emit_tile(Emit& e, const CpuTile& t) { Dot(e, t).run(); }

}  // namespace

const CpuForm kDotForm = {refusal, packing_words, emit_tile};

}  // namespace lathe::emit
