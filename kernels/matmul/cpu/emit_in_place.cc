#include "kernels/matmul/cpu/emit_in_place.h"

#include "core/packed.h"
#include "kernels/matmul/cpu/emit_pack.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {
using namespace mlir;

int64_t line_elements(const CpuTile& t) { return std::max<int64_t>(elements_of_line(t.a), t.words.width()); }
int64_t line_words(const CpuTile& t) { return line_elements(t) / t.words.per_lane(); }

namespace {

// Words of packing memory that an address takes.
constexpr int64_t kAddressWords = 2;

// Iterations that a cache line lasts; each prefetches one line.
int64_t fetching_turns(const CpuTile& t) { return line_words(t) / t.unroll_k; }
bool fetches_in_place(const CpuTile& t) { return t.a_in_place && t.fetch != CpuFetch::kNone; }

// Where the address of the line that iteration `turn` prefetches is stored.
Value next_line(Emit& e, const CpuTile& t, int64_t behind, Value turn) {
  return pointer_to(e, t.packing, e.add(e.mul(turn, kAddressWords), behind));
}

// Panels of B packed in advance: a K block of a panel is divided into pieces, which are prefetched as if
// they were lines.
int64_t pieces_a_panel(const CpuTile& t) {
  return kPackedColumns * static_cast<int64_t>(t.b.element.getIntOrFloatBitWidth()) / 32;
}
Value piece_of_panels(Emit& e, const CpuTile& t, Value piece, Value k0) {
  Value pieces = e.idx(pieces_a_panel(t));
  Value column = e.min(e.mul(e.div(piece, pieces), kPackedColumns), last_panel(e, t));
  Value within = e.mul(e.rem(piece, pieces), t.tile_k * kPackedColumns / pieces_a_panel(t));
  return pointer_to(e, t.b.memory, e.add(panel_at(e, t, column, k0), within));
}

}  // namespace

int64_t next_line_words(const CpuTile& t) {
  return fetches_in_place(t) ? kAddressWords * fetching_turns(t) : 0;
}

void store_next_lines(Emit& e, const CpuTile& t, int64_t behind, Value i, Value k0) {
  if (!fetches_in_place(t)) return;
  const int64_t mr = t.register_rows, turns = fetching_turns(t), share = turns - mr;
  const auto address = [&](const View& v, Value line, Value lines, Value k) {
    Value at = row_at(e, v, e.min(line, e.sub(lines, e.idx(1))));
    return pointer_to(e, v.memory, e.add(v.offset, e.add(at, k)));
  };
  Value row = e.add(i, mr), block = k0, next = e.add(k0, t.tile_k), line, now;
  // If passes share the prefetching, the next K block prefetches its own first rows.
  if (!t.is_one_block() && t.fetch == CpuFetch::kNext) {
    Value more = e.less(next, t.depth), last = e.less(e.sub(t.rows, e.idx(1)), row);
    if (share > 0 && t.b_k_contiguous) {
      // The last rows prefetch the packed operand, in equal shares.
      Value rows_left = e.sub(e.ceil_div(t.rows, e.idx(mr)), e.div(row, e.idx(mr)));
      Value lines = t.columns;
      if (t.packed_word) lines = e.mul(e.ceil_div(lines, e.idx(kPackedColumns)), pieces_a_panel(t));
      Value shares = e.ceil_div(lines, e.idx(share));
      now = arith::AndIOp::create(e.b, e.loc, more, e.less(rows_left, shares));
      line = e.mul(e.sub(shares, e.add(rows_left, 1)), share);
    }
    Value wraps = arith::AndIOp::create(e.b, e.loc, more, last);
    row = select(e, wraps, e.idx(0), row), block = select(e, wraps, next, k0);
  }
  Value of_row;  // past the last row the last one again
  for (int64_t turn = 0; turn < turns; ++turn) {
    if (turn < mr) of_row = address(t.a, e.add(row, turn), t.rows, block);
    Value from = of_row;
    if (now && turn >= mr) {
      Value of_b = e.add(line, turn - mr);
      Value packed = t.packed_word ? piece_of_panels(e, t, of_b, next) : address(t.b, of_b, t.columns, next);
      from = select(e, now, packed, from);
    }
    LLVM::StoreOp::create(e.b, e.loc, from, next_line(e, t, behind, e.idx(turn)));
  }
}

Values steps_in_place(Emit& e, const CpuTile& t, const Fetching& fetching, int64_t behind, Value depth,
                      Values sums, const std::function<Values(Value, const Values&)>& step) {
  const int64_t unroll = t.unroll_k, passes = fetching.passes, turn = unroll * passes;
  const size_t count = sums.size(), chains = static_cast<size_t>(t.chains);
  sums.append((chains - 1) * count, t.words.zero_sums());
  const auto step_of = [&](size_t chain, Value k, Values now) {
    const Values after = step(k, Values(now.begin() + chain * count, now.begin() + (chain + 1) * count));
    std::copy(after.begin(), after.end(), now.begin() + chain * count);
    return now;
  };
  Value words = e.ceil_div(depth, e.idx(t.words.per_lane()));
  const auto fetch = [&](Value k) {
    Value at = next_line(e, t, behind, e.rem(e.div(k, e.idx(turn)), e.idx(fetching_turns(t))));
    if (passes > 1)
      k = e.add(e.mul(fetching.pass, e.ceil_div(words, e.idx(passes))), e.div(k, e.idx(passes)));
    Value line = LLVM::LoadOp::create(e.b, e.loc, at.getType(), at);
    Value ahead = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), e.mul(k, t.words.per_lane()));
    Type element = e.b.getIntegerType(t.a.element.getIntOrFloatBitWidth());
    line =
        LLVM::GEPOp::create(e.b, e.loc, line.getType(), element, line, llvm::ArrayRef<LLVM::GEPArg>{ahead});
    LLVM::Prefetch::create(e.b, e.loc, line, /*rw=*/0, kIntoL2, /*cache=*/1);
  };
  const auto steps = [&](Value from, Value to, const Values& begin, bool fetches) {
    return e.loop(from, to, unroll, begin, [&](Value k, const Values& carried) {
      if (fetches) fetch(k);
      Values now = carried;
      for (int64_t u = 0; u < unroll; ++u) now = step_of(u % chains, e.add(k, u), now);
      return now;
    });
  };
  Value whole = e.mul(e.div(words, e.idx(unroll)), unroll), fetched = e.idx(0);
  if (passes > 1) {
    fetched = e.mul(e.div(words, e.idx(turn)), turn);
    sums = e.loop(e.idx(0), fetched, turn, sums, [&](Value k, const Values& carried) {
      fetch(k);
      if (fetching.beside) fetching.beside(e.div(k, e.idx(turn)));
      return steps(k, e.add(k, turn), carried, false);
    });
  }
  sums = steps(fetched, whole, sums, fetching.pass && passes == 1);
  if (unroll > 1)
    sums = e.loop(whole, words, 1, sums, [&](Value k, const Values& now) { return step_of(0, k, now); });
  for (size_t q = 0; q < count && chains > 1; ++q) sums[q] = t.words.add(sums[q], sums[count + q]);
  sums.truncate(count);
  return sums;
}

}  // namespace lathe::emit
