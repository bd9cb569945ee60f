// "bytes": A is rounded to bytes block by block, as ggml's CPU backend rounds it (its Q8_0, Q8_1 and Q8_K), and
// multiplied with weights in blocks. The lanes of a vector are columns of D: their blocks are transposed in registers
// (emit_byte_blocks.h), so that a word holds four elements of K of one column, and are multiplied with a broadcast word
// of each row (AArch64 with i8mm: two columns with two rows). The products of a group of elements are summed exactly,
// then scaled in f32.
//
// With lanes along K instead, a conversion, a multiplication and an FMA would be needed for every two
// products; here they are needed for every eight.
#include "base/dtype.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_nest.h"
#include "kernels/matmul/cpu/emit_rounding.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kZmmLanes = 16, kYmmLanes = 8;
constexpr int64_t kWords = ByteFormat::kWords;
constexpr int64_t kChains = 4;
constexpr int64_t kUnrolledRows = 2;

int64_t padded_rows(const CpuTile& t) { return round_up(t.tile_rows, t.register_rows); }

RoundedRows rounded_rows(const CpuTile& t, const ByteFormat& f) {
  using Order = RoundedRows::Bytes;
  const bool in_pairs = t.i8mm && t.register_rows % 2 == 0;
  const Order order = in_pairs                     ? Order::kInPairs
                      : t.fetch == CpuFetch::kNone ? Order::kSideBySide
                                                   : Order::kByRow;
  return {f, padded_rows(t), t.most_depth, t.lanes, order, 1, t.register_rows};
}

class Bytes : Lanes {
 public:
  Bytes(Emit& emit, const CpuTile& tile, const ByteFormat& format)
      : Lanes{emit, tile.lanes}, t(tile), f(format), row(rounded_rows(tile, format)) {}

  void run() {
    CpuNest nest;
    nest.pass_columns = vectors() * lanes;
    nest.begin_columns = [this](const NestBlock&, Value j) {
      columns.clear();
      for (int64_t v = 0; v < vectors(); ++v) {
        columns.emplace_back(e, t, e.add(j, v * lanes));
        if (vectors() > 1) columns.back().lane = e.idx(v * lanes);  // the pass begins with a panel
      }
    };
    nest.tile = [this](const NestBlock&, const NestRows& rows, const NestColumns& c) {
      rm = rows.count;
      Values sums(vectors() * rm, e.splat(f32s(), 0.0));
      sums =
          e.loop(e.idx(0), e.div(t.depth, e.idx(f.block)), 1, sums,
                 [&](Value block, const Values& carried) { return multiply(rows.i, c.j, block, carried); });
      for (int64_t v = 0; v < vectors(); ++v)
        for (int64_t r = 0; r < rm; ++r)
          e.store_vector(sums[v * rm + r], t.accumulators,
                         e.add(e.mul(e.add(rows.i, r), t.ld), e.add(c.j, v * lanes)));
    };
    emit_nest(e, t, nest);
  }

 private:
  // Field `at` of row i of A, in all lanes.
  Value word(Value i, Value at) { return e.broadcast(e.load(t.packing, e.add(row.row(e, i), at)), lanes); }

  // The vectors of a pass: those of a packed panel, so that it is read as one stream and only once. With many rows a
  // block of several groups keeps too much for two vectors.
  int64_t vectors() const {
    const bool whole_panel = t.packed_word && (f.groups() == 1 || t.register_rows <= kUnrolledRows);
    return whole_panel ? kPackedColumns / lanes : 1;
  }

  // A chain of eight products takes eight latencies, so several rows are computed side by side, few enough that their
  // sums stay in registers. The fences keep the order: LLVM would otherwise load the scales of all rows first and spill
  // the sums.
  void in_order() { LLVM::FenceOp::create(e.b, e.loc, LLVM::AtomicOrdering::acq_rel, "singlethread"); }
  template <typename Body>
  void for_chains(int64_t count, Body body) {
    for (int64_t c0 = 0; c0 < count; c0 += kChains) body(c0, std::min(kChains, count - c0));
  }
  // The products of a part of a group and a row, which are summed in a register of their own.
  struct Chain {
    Value i, group;
    const Values& numbers;  // the words of the part
  };

  // Adds the products of one block to `sums`, of the rows of a pass for each of its vectors of columns. Many rows loop
  // over the block: all its instructions would not fit the cache of decoded instructions.
  Values multiply(Value i, Value j, Value block, Values sums) {
    std::vector<ByteBlock> blocks;
    for (const BlockColumns& c : columns) blocks.emplace_back(e, t, f, c, block);
    for (size_t v = 0; t.fetch == CpuFetch::kNone && v < blocks.size(); ++v) blocks[v].read_header();
    Value first = e.mul(block, f.groups());
    if (f.groups() == 1) return add_groups(i, j, blocks, {0, 1}, first, sums);
    Values of_block(sums.size(), e.splat(f32s(), 0.0));
    if (rm <= kUnrolledRows) {
      // Of a packed B the groups that share codes side by side, so that every byte is loaded once.
      const int64_t count = t.packed_word ? f.shared_groups() : 1;
      for (int64_t g = 0; g < f.groups(); g += count)
        of_block = add_groups(i, j, blocks, {g, count}, e.add(first, g), of_block);
    } else {
      of_block = loop_over_groups(i, j, blocks, first, of_block);
    }
    for (size_t v = 0; v < blocks.size(); ++v) {
      if (f.has_minimum) put(v, &of_block, subtract_minima(i, blocks[v], block, part(v, of_block)));
      const Values scaled = part(v, of_block);
      for_chains(rm, [&](int64_t r0, int64_t chains) {
        in_order();
        for (int64_t r = r0; r < r0 + chains; ++r) {
          Value& sum = sums[static_cast<int64_t>(v) * rm + r];
          sum = e.fma(scaled[r], word(e.add(i, r), e.add(first, row.scales)), sum);
        }
      });
    }
    return sums;
  }
  Values loop_over_groups(Value i, Value j, std::vector<ByteBlock>& blocks, Value first, const Values& sums) {
    const auto kept = [&](size_t v) {
      return e.idx(row.words + static_cast<int64_t>(v) * ByteBlock::kept_vectors(f) * lanes);
    };
    for (size_t v = 0; v < blocks.size(); ++v) blocks[v].keep(kept(v));
    return e.loop(e.idx(0), e.idx(f.groups()), f.shared_groups(), sums, [&](Value run, Values carried) {
      std::vector<ByteBlock> parts;
      for (size_t v = 0; v < blocks.size(); ++v) parts.push_back(blocks[v].in_loop(run, kept(v)));
      for (int64_t g = 0; g < f.shared_groups(); ++g)
        carried = add_groups(i, j, parts, {g, 1}, e.add(first, e.add(run, g)), carried);
      return carried;
    });
  }
  // The sums of vector `v`.
  Values part(size_t v, const Values& sums) const {
    const auto* const from = sums.begin() + static_cast<int64_t>(v) * rm;
    return Values(from, from + rm);
  }
  void put(size_t v, Values* sums, const Values& part) const {
    std::copy(part.begin(), part.end(), sums->begin() + static_cast<int64_t>(v) * rm);
  }

  struct Groups {
    int64_t first, count;
  };
  // The same for groups of all vectors.
  Values add_groups(Value i, Value j, std::vector<ByteBlock>& blocks, const Groups& groups, Value group,
                    Values sums) {
    for (size_t v = 0; v < blocks.size(); ++v) {
      Value column = e.add(j, static_cast<int64_t>(v) * lanes);
      put(v, &sums, multiply_groups(i, column, blocks[v], groups, group, part(v, sums)));
    }
    return sums;
  }
  // The same for groups of `b`, which begin with group `group` of the column. A has one scale for all groups of a block,
  // so sums of a block with several groups lack it.
  Values multiply_groups(Value i, Value j, ByteBlock& b, const Groups& groups, Value group, Values sums) {
    for (int64_t g = 0; t.fetch != CpuFetch::kNone && g < groups.count; ++g)
      prefetch_group(e, t, f, e.add(j, t.packed_word ? kPackedColumns : lanes), e.add(group, g));
    Value minimum = f.has_minimum && f.groups() == 1 ? b.minimum() : Value();
    for (int64_t part = 0; part < f.scales_of_group(); ++part) {
      SmallVector<Values> numbers;
      Values scales;
      for (int64_t g = groups.first; g < groups.first + groups.count; ++g) {
        numbers.push_back(in_pairs() ? paired(b.words(g, part)) : b.words(g, part));
        scales.push_back(b.scale(g, part));
      }
      for_chains(groups.count * rm, [&](int64_t c0, int64_t count) {
        SmallVector<Chain> chains;
        for (int64_t c = c0; c < c0 + count; ++c)
          chains.push_back({e.add(i, c % rm), e.add(group, c / rm), numbers[c / rm]});
        in_order();
        const Values exact = products(chains, part);
        in_order();
        for (int64_t c = 0; c < count; ++c) {
          const Chain& chain = chains[c];
          Value& sum = sums[(c0 + c) % rm];
          Value scale = scales[(c0 + c) / rm];
          if (f.groups() == 1) scale = mul(scale, word(chain.i, e.add(chain.group, row.scales)));
          sum = e.fma(to_f32(exact[c]), scale, sum);
          if (minimum) sum = e.fma(minimum, word(chain.i, e.add(chain.group, row.minima)), sum);
        }
      });
    }
    return sums;
  }

  // Word `w` of a row of A for part `part` of a group.
  Value place_of_word(const Chain& chain, int64_t part, int64_t w) {
    return e.add(row.bytes(e, chain.i, chain.group), part * (kWords / f.scales_of_group()) + w);
  }
  // What the offset of the weights' bytes adds to the products of a chain, negated.
  Value of_offset(const Chain& chain, int64_t part) {
    return word(chain.i, e.add(e.mul(chain.group, f.scales_of_group()), row.firsts + part));
  }
  // The exact products of each chain.
  Values products(llvm::ArrayRef<Chain> chains, int64_t part) {
    if (in_pairs()) return products_of_pairs(chains, part);
    if (lanes == kYmmLanes && !t.vnni) return products_of_words(chains, part);
    Values exact;
    for (const Chain& chain : chains) exact.push_back(f.offset ? as(i32s(), of_offset(chain, part)) : all(0));
    if (t.dotprod) return add_dot_products(chains, part, exact);
    const char* name = lanes == kZmmLanes ? "llvm.x86.avx512.vpdpbusd.512" : "llvm.x86.avx512.vpdpbusd.256";
    for (size_t w = 0; w < chains[0].numbers.size(); ++w)
      for (size_t c = 0; c < chains.size(); ++c)
        exact[c] = products_of_bytes(name, exact[c], chains[c].numbers[w], word_of_a(chains[c], part, w));
    return exact;
  }
  Value word_of_a(const Chain& chain, int64_t part, size_t w) {
    return e.broadcast(e.load(t.packing, place_of_word(chain, part, static_cast<int64_t>(w))), lanes);
  }

  Value products_of_bytes(const char* name, Value sum, Value x, Value y) {
    return call(name, i32s(), {sum, as(i8s(), x), as(i8s(), y)});
  }

  // --- AArch64
  bool in_pairs() const { return row.order == RoundedRows::Bytes::kInPairs; }
  Value lane_of(Value x, int64_t lane) {
    return shuffle(x, x, SmallVector<int64_t>(static_cast<size_t>(lanes), lane));
  }

  // sdot multiplies four bytes of each column by one word of a row, which it takes from a vector of four.
  Values add_dot_products(llvm::ArrayRef<Chain> chains, int64_t part, Values exact) {
    for (int64_t w = 0; w < kWords / f.scales_of_group(); w += lanes) {
      for (size_t c = 0; c < chains.size(); ++c) {
        Value a = as(i32s(), e.load_vector(t.packing, place_of_word(chains[c], part, w), lanes));
        for (int64_t l = 0; l < lanes; ++l)
          exact[c] = products_of_bytes("llvm.aarch64.neon.sdot.v4i32.v16i8", exact[c],
                                       chains[c].numbers[w + l], lane_of(a, l));
      }
    }
    return exact;
  }

  // smmla multiplies eight bytes of two columns by those of two rows. For each eight elements of K: the first two
  // columns, then the other two.
  Values paired(const Values& words) {
    Values pairs;
    for (size_t w = 0; w < words.size(); w += 2) {
      pairs.push_back(shuffle(words[w], words[w + 1], {0, 4, 1, 5}));
      pairs.push_back(shuffle(words[w], words[w + 1], {2, 6, 3, 7}));
    }
    return pairs;
  }
  // products() of an even number of rows, whose bytes lie in pairs.
  Values products_of_pairs(llvm::ArrayRef<Chain> chains, int64_t part) {
    const int64_t steps = kWords / 2 / f.scales_of_group();
    Values exact;
    for (size_t c = 0; c < chains.size(); c += 2) {
      const Chain &chain = chains[c], &other = chains[c + 1];
      Value first = all(0);
      if (f.offset) first = as(i32s(), shuffle(of_offset(chain, part), of_offset(other, part), {0, 1, 4, 5}));
      Value at = row.bytes(e, chain.i, chain.group), columns[] = {first, first};
      for (int64_t step = 0; step < steps; ++step) {
        Value from = e.add(at, (part * steps + step) * RoundedRows::kPairStep);
        Value a = as(i32s(), e.load_vector(t.packing, from, lanes));
        for (int64_t half = 0; half < 2; ++half)
          columns[half] = products_of_bytes("llvm.aarch64.neon.smmla.v4i32.v16i8", columns[half], a,
                                            chain.numbers[2 * step + half]);
      }
      exact.push_back(shuffle(columns[0], columns[1], {0, 1, 4, 5}));
      exact.push_back(shuffle(columns[0], columns[1], {2, 3, 6, 7}));
    }
    return exact;
  }

  // The minima of two groups, from 16 bits of each lane.
  Values separate(Value pair) {
    const VectorType shorts = e.vec(lanes, e.b.getIntegerType(16));
    return {arith::TruncIOp::create(e.b, e.loc, shorts, pair),
            arith::TruncIOp::create(e.b, e.loc, shorts, down(pair, 16))};
  }
  // The minima of a group by a lane of the sums of row i, which begin at field `at` (smlal).
  Value sum_of_minima_neon(Value i, Value at, const Values& minima) {
    const auto count = static_cast<int64_t>(minima.size());
    Value sums =
        as(e.vec(count, e.b.getI16Type()), e.load_vector(t.packing, e.add(row.row(e, i), at), count / 2));
    const auto wide = [&](Value x) -> Value { return arith::ExtSIOp::create(e.b, e.loc, i32s(), x); };
    Value exact = all(0);
    for (int64_t g = 0; g < count; ++g)
      exact = add(exact, mul(wide(minima[static_cast<size_t>(g)]), wide(lane_of(sums, g))));
    return exact;
  }

  // --- Without VNNI: sums of two products in 16 bits.
  Values products_of_words(llvm::ArrayRef<Chain> chains, int64_t part) {
    Values exact(chains.size()), narrow(chains.size());
    const auto plus = [&](Value sum, Value x) { return sum ? add(sum, x) : x; };
    const size_t count = chains[0].numbers.size(), most = words_of_narrow_sum();
    for (size_t w = 0; w < count; ++w)
      for (size_t c = 0; c < chains.size(); ++c) {
        narrow[c] = plus(narrow[c], narrow_product(chains[c].numbers[w], word_of_a(chains[c], part, w)));
        if ((w + 1) % most != 0 && w + 1 < count) continue;
        exact[c] = plus(exact[c], call("llvm.x86.avx2.pmadd.wd", i32s(), {narrow[c], e.splat(i16s(), 1)}));
        narrow[c] = nullptr;
      }
    for (size_t c = 0; f.offset && c < chains.size(); ++c)
      exact[c] = add(exact[c], as(i32s(), of_offset(chains[c], part)));
    return exact;
  }
  // Words whose sums of two products can be added without overflow.
  size_t words_of_narrow_sum() const {
    return static_cast<size_t>(std::max<int64_t>(1, 32767 / (2 * 127 * f.largest)));
  }
  Value narrow_product(Value b, Value a) {
    Value x = as(i8s(), b), y = as(i8s(), a);
    if (f.is_signed) {  // the sign of B moves to A
      Value zero = e.zero(x.getType());
      Value negative = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, x, zero);
      Value negated = sub(zero, x);
      y = call("llvm.x86.avx2.psign.b", y.getType(), {y, x});
      x = select(e, negative, negated, x);
    }
    return call("llvm.x86.avx2.pmadd.ub.sw", i16s(), {x, y});
  }

  // Formats with a minimum for each group: all minima of a block by the sums of A's bytes, exactly, times their scale.
  Values subtract_minima(Value i, ByteBlock& b, Value block, Values sums) {
    const int64_t count = f.groups() / 2;
    Values minima;
    for (int64_t p = 0; p < count; ++p) {
      const Values of_pair = t.dotprod ? separate(b.minimum_pair(p)) : Values{as(i16s(), b.minimum_pair(p))};
      minima.append(of_pair.begin(), of_pair.end());
    }
    Value of_block = b.minimum_scale();
    for_chains(rm, [&](int64_t r0, int64_t chains) {
      in_order();
      for (int64_t r = r0; r < r0 + chains; ++r) {
        Value at = e.add(e.mul(block, count), row.minima);
        Value exact =
            t.dotprod ? sum_of_minima_neon(e.add(i, r), at, minima) : sum_of_minima(e.add(i, r), at, minima);
        sums[r] = e.fma(to_f32(exact), of_block, sums[r]);
      }
    });
    return sums;
  }
  // The minima of two groups at a time, by two sums of row i from field `at` on.
  Value sum_of_minima(Value i, Value at, const Values& pairs) {
    const char* name = lanes == kZmmLanes ? "llvm.x86.avx512.pmaddw.d.512" : "llvm.x86.avx2.pmadd.wd";
    Value exact;
    for (size_t p = 0; p < pairs.size(); ++p) {
      Value x = call(name, i32s(), {pairs[p], as(i16s(), word(i, e.add(at, static_cast<int64_t>(p))))});
      exact = exact ? add(exact, x) : x;
    }
    return exact;
  }

  const CpuTile& t;
  const ByteFormat& f;
  const RoundedRows row;
  std::vector<BlockColumns> columns;  // of the pass
  int64_t rm = 0;                     // rows of a pass
};

int64_t packing_words(const CpuTile& t) {
  const ByteFormat f(t.b.blocks, t.vnni);
  const int64_t columns = t.packed_word ? kPackedColumns : t.lanes;
  return rounded_rows(t, f).words + ByteBlock::kept_vectors(f) * columns;
}

std::string refusal(const CpuTile& t) {
  const bool has_lanes = (t.lanes == kZmmLanes && t.vnni) || t.lanes == kYmmLanes || t.dotprod;
  if (!CpuBlocks::holds(t.b) || !t.a_k_contiguous || !has_lanes)
    return "needs B in blocks, a K-contiguous A and 8 lanes, 16 with AVX512-VNNI, or AArch64's dotprod";
  if (t.packed_word && t.dotprod) return "AArch64 has no packed blocks";
  if (t.packed_word && t.tile_columns % kPackedColumns != 0)
    return "tile_n is not a multiple of the columns of a packed panel";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNear && t.fetch != CpuFetch::kNone)
    return "prefetch must be 1, 2 or 5";
  if (t.narrowest_rows > 0 && t.register_rows % t.narrowest_rows != 0)
    return "register_m is not a multiple of narrowest_rows";
  return "";
}

void emit_tile(Emit& e, const CpuTile& t) {
  const ByteFormat format(t.b.blocks, t.vnni);
  round_rows(e, t, format, rounded_rows(t, format), 0);
  Bytes(e, t, format).run();
}

}  // namespace

const CpuForm kBytesForm = {refusal, packing_words, emit_tile};

}  // namespace lathe::emit
