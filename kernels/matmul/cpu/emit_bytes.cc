// "bytes": A is rounded to bytes block by block, as ggml's CPU backend rounds it (its Q8_0, Q8_1 and Q8_K), and
// multiplied with weights in blocks. The lanes of a vector are columns of D: their blocks are transposed in registers
// (emit_byte_blocks.h), so that a word holds four elements of K of one column, and are multiplied with a broadcast word
// of each row. The products of a group of elements are summed exactly, then scaled in f32.
//
// With lanes along K instead, a conversion, a multiplication and an FMA would be needed for every two
// products; here they are needed for every eight.
#include "base/dtype.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_byte_blocks.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kZmmLanes = 16, kYmmLanes = 8;
constexpr int64_t kGroup = ByteFormat::kGroup, kWords = ByteFormat::kWords;
constexpr int64_t kChains = 4;
constexpr int64_t kUnrolledRows = 2;
constexpr int32_t kInfinityBits = 0x7f800000, kNanBits = 0x7fc00000;
constexpr int32_t kRoundingBits = 0x4b400000;  // 1.5 * 2^23, where the spacing of floats is 1

int64_t padded_rows(const CpuTile& t) { return round_up(t.tile_rows, t.register_rows); }

// A row of A in the packing memory, in words: the bytes of all groups of 32 elements, then per group a scale, then per
// scale of the weights the first sum (what A's bytes times the weights' offset add), then what multiplies the minima.
struct RoundedRow {
  RoundedRow(const CpuTile& t, const ByteFormat& f)
      : groups(round_up(ceil_div(t.most_depth, kGroup), t.lanes)),
        scales(kWords * groups),
        firsts(scales + groups),
        minima(firsts + (f.offset ? groups * f.scales_of_group() : 0)),
        // The padding keeps rows from starting in the same cache set.
        pitch(round_up(minima + (f.has_minimum ? groups : 0), 16) + 16) {}
  int64_t groups, scales, firsts, minima, pitch;
};

// A lane per column, or per group of 32 elements of a row of A.
struct Arithmetic : Lanes {
  Value as(Type type, Value x) const { return arith::BitcastOp::create(e.b, e.loc, type, x); }
  Value add(Value x, Value y) const { return arith::AddIOp::create(e.b, e.loc, x, y); }
  Value mul(Value x, Value y) const { return arith::MulFOp::create(e.b, e.loc, x, y); }
  Value max(Value x, Value y) const { return arith::MaxSIOp::create(e.b, e.loc, x, y); }
};

// Rounds rows of A.
class Rounding : Arithmetic {
 public:
  Rounding(Emit& emit, const CpuTile& tile, const ByteFormat& format)
      : Arithmetic{{emit, tile.lanes}},
        t(tile),
        f(format),
        layout(tile, format),
        groups(e.div(t.depth, e.idx(kGroup))) {}

  void run() {
    Value last_row = e.sub(t.rows, e.idx(1));
    e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
      Value row = e.add(t.a.offset, e.mul(e.min(i, last_row), t.a.row_stride));
      e.loop(e.idx(0), groups, lanes, [&](Value g) { round_groups(e.mul(i, layout.pitch), row, g); });
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
  void round_groups(Value to, Value row, Value g) {
    const int64_t vectors = kGroup / lanes;
    Values magnitudes;
    const auto load = [&](int64_t q, int64_t v) -> Value {
      Value from = e.add(row, e.mul(group_of_lane(g, q), kGroup));
      return e.to_f32(e.load_vector(t.a.memory, e.add(from, v * lanes), lanes));
    };
    for (int64_t q = 0; q < lanes; ++q) {
      Value most;
      for (int64_t v = 0; v < vectors; ++v) {
        Value bits = arith::AndIOp::create(e.b, e.loc, as(i32s(), load(q, v)), all(0x7fffffff));
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
    scale = arith::SelectOp::create(e.b, e.loc, finite, scale, as(f32s(), all(kNanBits)));
    e.store_vector(scale, t.packing, e.add(e.add(to, layout.scales), g));

    // The sums of the parts of a group: of the halves if each has a scale, else of all of it.
    const int64_t parts = f.scales_of_group();
    std::vector<Values> sums(static_cast<size_t>(parts));
    for (int64_t q = 0; q < lanes; ++q) {
      Value at = e.add(to, e.mul(group_of_lane(g, q), kWords)), by = all_of_lane(inverse, q);
      Value sum;
      for (int64_t v = 0; v < vectors; ++v) {
        Value x = arith::AddFOp::create(e.b, e.loc, mul(load(q, v), by), as(f32s(), all(kRoundingBits)));
        x = as(i32s(), x);
        Value bytes = arith::TruncIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI8Type()), x);
        Value packed = vector::BitCastOp::create(e.b, e.loc, e.vec(lanes / 4, e.f32()), bytes);
        e.store_vector(packed, t.packing, e.add(at, v * (lanes / 4)));
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
      totals.push_back(
          arith::SubIOp::create(e.b, e.loc, sum_across(part), all(static_cast<int32_t>(rounding))));
    }
    if (f.offset) store_firsts(to, g, totals);
    if (f.has_minimum) store_minima(to, g, totals[0], exact);
  }

  // What the offset of the weights' bytes adds, negated.
  void store_firsts(Value to, Value g, const Values& totals) {
    Values firsts;
    for (Value total : totals)
      firsts.push_back(as(f32s(), arith::MulIOp::create(e.b, e.loc, total, all(-f.offset))));
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
    VectorType pairs = e.vec(lanes / 2, e.b.getI32Type());
    const auto constant = [&](int32_t word) -> Value {
      return arith::ConstantOp::create(e.b, e.loc,
                                       SplatElementsAttr::get(pairs, e.b.getI32IntegerAttr(word)));
    };
    Value low = arith::AndIOp::create(e.b, e.loc, shuffle(total, total, even), constant(0xffff));
    Value high = arith::ShLIOp::create(e.b, e.loc, shuffle(total, total, odd), constant(16));
    Value both = arith::OrIOp::create(e.b, e.loc, low, high);
    e.store_vector(as(e.vec(lanes / 2, e.f32()), both), t.packing, e.add(at, e.div(g, e.idx(2))));
  }

  const CpuTile& t;
  const ByteFormat& f;
  const RoundedRow layout;
  Value groups;
};

class Bytes : Arithmetic {
 public:
  Bytes(Emit& emit, const CpuTile& tile, const ByteFormat& format)
      : Arithmetic{{emit, tile.lanes}},
        t(tile),
        f(format),
        row(tile, format),
        rm(t.register_rows),
        last_column(e.sub(t.columns, e.idx(1))) {}

  void run() {
    Value blocks = e.div(t.depth, e.idx(f.block));
    e.loop(e.idx(0), t.columns, lanes, [&](Value j) {
      Values columns;
      for (int64_t c = 0; c < lanes; ++c) columns.push_back(column_of_b(e.add(j, c)));
      e.loop(e.idx(0), t.rows, rm, [&](Value i) {
        Values sums(rm, e.splat(f32s(), 0.0));
        sums = e.loop(e.idx(0), blocks, 1, sums, [&](Value block, const Values& carried) {
          return multiply(i, j, columns, block, carried);
        });
        for (int64_t r = 0; r < rm; ++r)
          e.store_vector(sums[r], t.accumulators, e.add(e.mul(e.add(i, r), t.ld), j));
      });
    });
  }

 private:
  Value column_of_b(Value j) {
    return CpuBlocks(e, lanes, t.b).byte_of(e.add(t.b.offset, e.mul(e.min(j, last_column), t.b.row_stride)));
  }
  // A word of row i of A, in all lanes.
  Value word(Value i, Value at) {
    return e.broadcast(e.load(t.packing, e.add(e.mul(i, row.pitch), at)), lanes);
  }

  // Prefetches the next columns: each group of 32 elements a part of one of them in turn.
  void fetch_ahead(Value j, Value group) {
    Value turn = e.rem(group, e.idx(lanes)), first = e.div(e.sub(group, turn), e.idx(f.groups()));
    Value from = e.add(column_of_b(e.add(e.add(j, lanes), turn)), e.mul(first, f.bytes));
    for (int64_t line = 0; line < lanes / f.groups() * f.bytes; line += 64)
      e.prefetch(t.b.memory, e.add(from, line), t.fetch == CpuFetch::kNear ? kIntoL1 : kIntoL2);
  }

  // A chain of eight products takes eight latencies, so several rows are computed side by side, few enough that their
  // sums stay in registers. The fences keep the order: LLVM would otherwise load the scales of all rows first and spill
  // the sums.
  void in_order() { LLVM::FenceOp::create(e.b, e.loc, LLVM::AtomicOrdering::acq_rel, "singlethread"); }
  template <typename Body>
  void for_chains(Body body) {
    for (int64_t r0 = 0; r0 < rm; r0 += kChains) body(r0, std::min(kChains, rm - r0));
  }

  // Adds the products of one block to `sums`, of register_m rows and one vector of columns. Many rows loop over the block:
  // all its instructions would not fit the cache of decoded instructions.
  Values multiply(Value i, Value j, const Values& columns, Value block, Values sums) {
    ByteBlock b(e, t, f, columns, e.mul(block, f.bytes));
    Value first = e.mul(block, f.groups());
    if (f.groups() == 1 || rm <= kUnrolledRows) {
      for (int64_t g = 0; g < f.groups(); ++g) sums = multiply_group(i, j, b, g, e.add(first, g), sums);
    } else {
      Value kept = e.idx(padded_rows(t) * row.pitch);
      b.keep(kept);
      sums = e.loop(e.idx(0), e.idx(f.groups()), f.shared_groups(), sums, [&](Value run, Values carried) {
        ByteBlock part = b.in_loop(run, kept);
        for (int64_t g = 0; g < f.shared_groups(); ++g)
          carried = multiply_group(i, j, part, g, e.add(first, e.add(run, g)), carried);
        return carried;
      });
    }
    return f.has_minimum && f.groups() > 1 ? subtract_minima(i, b, block, sums) : sums;
  }

  // The same for group `g` of `b`, which is group `group` of the column.
  Values multiply_group(Value i, Value j, ByteBlock& b, int64_t g, Value group, Values sums) {
    fetch_ahead(j, group);
    const Values numbers = b.words(g);
    Values scales;
    for (int64_t part = 0; part < f.scales_of_group(); ++part) scales.push_back(b.scale(g, part));
    Value minimum = f.has_minimum && f.groups() == 1 ? b.minimum() : Value();
    for_chains([&](int64_t r0, int64_t chains) {
      for (int64_t part = 0; part < f.scales_of_group(); ++part) {
        in_order();
        const Values exact = products(e.add(i, r0), chains, group, part, numbers);
        in_order();
        for (int64_t r = 0; r < chains; ++r) {
          Value scale = mul(scales[part], word(e.add(i, r0 + r), e.add(group, row.scales)));
          sums[r0 + r] = e.fma(to_f32(exact[r]), scale, sums[r0 + r]);
          if (minimum)
            sums[r0 + r] = e.fma(minimum, word(e.add(i, r0 + r), e.add(group, row.minima)), sums[r0 + r]);
        }
      }
    });
    return sums;
  }

  // The exact products of `chains` rows from i on and part `part` of a group.
  Values products(Value i, int64_t chains, Value group, int64_t part, const Values& numbers) {
    Values exact;
    for (int64_t r = 0; r < chains; ++r) {
      Value first = all(0);
      if (f.offset) {
        Value at = e.add(e.mul(group, f.scales_of_group()), row.firsts + part);
        first = as(i32s(), word(e.add(i, r), at));
      }
      exact.push_back(first);
    }
    const int64_t count = kWords / f.scales_of_group();
    Values narrow(static_cast<size_t>(chains));  // sums of 16 bits
    int64_t added = 0;
    for (int64_t w = part * count; w < (part + 1) * count; ++w) {
      ++added;
      const bool last = w + 1 == (part + 1) * count;
      for (int64_t r = 0; r < chains; ++r) {
        Value a = word(e.add(i, r), e.add(e.mul(group, kWords), w));
        if (lanes == kZmmLanes) {
          exact[r] =
              call("llvm.x86.avx512.vpdpbusd.512", i32s(), {exact[r], as_bytes(numbers[w]), as_bytes(a)});
          continue;
        }
        Value x = narrow_product(numbers[w], a);
        narrow[r] = narrow[r] ? Value(arith::AddIOp::create(e.b, e.loc, narrow[r], x)) : x;
        if (last || added == words_of_narrow_sum()) {
          Value wide = call("llvm.x86.avx2.pmadd.wd", i32s(), {narrow[r], e.splat(i16s(), 1)});
          exact[r] = add(exact[r], wide);
          narrow[r] = nullptr;
        }
      }
      if (added == words_of_narrow_sum()) added = 0;
    }
    return exact;
  }

  // --- Without VNNI: sums of two products in 16 bits.
  VectorType i16s() { return e.vec(2 * lanes, e.b.getIntegerType(16)); }
  Value call(const char* name, Type type, ValueRange operands) {
    return LLVM::CallIntrinsicOp::create(e.b, e.loc, type, e.b.getStringAttr(name), operands).getResult(0);
  }
  Value as_bytes(Value x) {
    return vector::BitCastOp::create(e.b, e.loc, e.vec(4 * lanes, e.b.getI8Type()), x);
  }
  // Words whose sums of two products can be added without overflow.
  int64_t words_of_narrow_sum() const { return std::max<int64_t>(1, 32767 / (2 * 127 * f.largest)); }
  Value narrow_product(Value b, Value a) {
    Value x = as_bytes(b), y = as_bytes(a);
    if (f.is_signed) {  // the sign of B moves to A
      Value zero = e.zero(x.getType());
      Value negative = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, x, zero);
      Value negated = arith::SubIOp::create(e.b, e.loc, zero, x);
      y = call("llvm.x86.avx2.psign.b", y.getType(), {y, x});
      x = arith::SelectOp::create(e.b, e.loc, negative, negated, x);
    }
    return call("llvm.x86.avx2.pmadd.ub.sw", i16s(), {x, y});
  }

  // Formats with a minimum for each group: all minima of a block by the sums of A's bytes, exactly, then scaled.
  Values subtract_minima(Value i, ByteBlock& b, Value block, Values sums) {
    const int64_t count = f.groups() / 2;
    Values pairs;
    for (int64_t p = 0; p < count; ++p) pairs.push_back(words16(b.minimum_pair(p)));
    Value of_block = b.minimum_scale();
    for_chains([&](int64_t r0, int64_t chains) {
      in_order();
      for (int64_t r = r0; r < r0 + chains; ++r) {
        Value exact;
        for (int64_t p = 0; p < count; ++p) {
          Value a = word(e.add(i, r), e.add(e.mul(block, count), row.minima + p));
          const char* name = lanes == kZmmLanes ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
          Value x = call(name, i32s(), {pairs[p], words16(a)});
          exact = exact ? add(exact, x) : x;
        }
        Value scale = mul(of_block, word(e.add(i, r), e.add(e.mul(block, f.groups()), row.scales)));
        sums[r] = e.fma(to_f32(exact), scale, sums[r]);
      }
    });
    return sums;
  }
  Value words16(Value x) { return vector::BitCastOp::create(e.b, e.loc, i16s(), x); }

  const CpuTile& t;
  const ByteFormat& f;
  const RoundedRow row;
  const int64_t rm;
  Value last_column;
};

}  // namespace

int64_t bytes_packing_elements(const CpuTile& t) {
  const ByteFormat f(t.b.blocks, t.lanes);
  return padded_rows(t) * RoundedRow(t, f).pitch + ByteBlock::kept_vectors(f) * t.lanes;
}

std::string bytes_refusal(const CpuTile& t) {
  if (!CpuBlocks::holds(t.b) || !t.a_k_contiguous || (t.lanes != kZmmLanes && t.lanes != kYmmLanes))
    return "needs B in blocks, a K-contiguous A and 8 or 16 lanes";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNear) return "prefetch must be 1 or 2";
  return "";
}

void emit_bytes(Emit& e, const CpuTile& t) {
  const ByteFormat format(t.b.blocks, t.lanes);
  Rounding(e, t, format).run();
  Bytes(e, t, format).run();
}

}  // namespace lathe::emit
