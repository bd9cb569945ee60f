// "amx_bytes": as "bytes" for many rows. The blocks of 16 columns are decoded once per K block, to AMX tiles of bytes,
// and multiplied with all rows of the task, whose bytes lie in tiles too.
//
// A format with a scale for each 32 elements uses tiles of that depth and scales every product of tiles. In a format
// with integer scales inside blocks of 256 (q4_k and its kin) a weight times its integer scale is a number of 16 bits:
// its lower and its upper byte are two tiles, whose products are summed exactly over the whole block.
#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_amx_tiles.h"
#include "kernels/matmul/cpu/emit_nest.h"
#include "kernels/matmul/cpu/emit_rounding.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kSide = AmxTiles::kSide, kTileWords = AmxTiles::kTileWords;
constexpr int64_t kWords = ByteFormat::kWords;

bool has_group_scales(const ByteFormat& f) { return f.groups() > 1; }
// Columns that are multiplied at once, in tiles. Planes need as many bytes of A for twice as many products.
int64_t column_tiles(const ByteFormat& f) { return has_group_scales(f) ? 2 : 1; }

// Where everything lies in the packing memory, in words.
struct AmxBytesLayout {
  AmxBytesLayout(const CpuTile& t, const ByteFormat& f)
      : depth(std::min(t.tile_k, round_up(t.most_depth, f.block))),
        rows(f, round_up(t.tile_rows, t.register_rows), t.most_depth, kSide, RoundedRows::Bytes::kInTiles,
             has_group_scales(f) ? 2 : 1),
        a(kSide),  // after the tile configuration
        tiles(a + rows.words),
        scales(depth * kSide / 4 * (has_group_scales(f) ? 2 : 1)),
        minima(scales + depth / f.block * kSide),
        pitch(minima + (f.has_minimum ? depth / f.block * kMinima * kSide : 0)),
        sums(tiles + column_tiles(f) * pitch),
        words(sums + 2 * kSumTiles * kTileWords) {}
  static constexpr int64_t kSumTiles = 4;  // in each of two buffers between tiles and vectors
  static constexpr int64_t kMinima = 5;    // vectors per block: four of pairs and their scale, or one
  int64_t depth;
  RoundedRows rows;
  int64_t a;
  int64_t tiles;                  // of the first 16 columns
  int64_t scales, minima, pitch;  // from there on: their scales, their minima, the next 16 columns
  int64_t sums, words;
};

class AmxBytes : Lanes {
 public:
  AmxBytes(Emit& emit, const CpuTile& tile, const ByteFormat& format)
      : Lanes{emit, tile.lanes}, t(tile), f(format), at(tile, format), tiles{emit} {}

  void run() {
    configure();
    e.loop(e.idx(0), e.mul(e.idx(round_up(t.tile_rows, t.register_rows)), t.ld), kSide,
           [&](Value i) { e.store_vector(e.splat(f32s(), 0.0), t.accumulators, i); });
    round_rows(e, t, f, at.rows, at.a);
    CpuNest nest;
    nest.group_columns = kAmxBytesColumns;  // their sums stay in L2 during all K blocks
    nest.pass_columns = t.register_columns;
    nest.begin_columns = [this](const NestBlock& block, Value in_group) {
      Value j = e.add(block.column0, in_group);
      const Blocks blocks{e.div(block.k0, e.idx(f.block)), e.div(block.depth, e.idx(f.block))};
      e.loop(e.idx(0), e.idx(column_tiles(f)), 1,
             [&](Value c) { decode(e.add(j, e.mul(c, kSide)), c, blocks); });
      has_group_scales(f) ? multiply_planes(j, blocks) : multiply_groups(j, blocks);
    };
    emit_nest(e, t, nest);
    tiles.release();
  }

 private:
  // The blocks of a K block: the first one, and how many.
  struct Blocks {
    Value first, count;
  };

  // --- tiles
  AmxTiles::Place place(Value word, int64_t line_words) { return {t.packing, word, e.idx(line_words * 4)}; }
  void load_a(int64_t tile, Value word) { tiles.load(tile, place(word, at.rows.tile_groups * kWords)); }
  void load_b(int64_t tile, Value word) { tiles.load(tile, place(word, kSide)); }

  // Without planes the tiles of A (1 and 4) and B (2 and 5) have half the depth.
  void configure() {
    std::array<AmxTiles::Size, AmxTiles::kRegisters> sizes;
    if (!has_group_scales(f)) sizes[1].bytes = sizes[4].bytes = 32, sizes[2].lines = sizes[5].lines = 8;
    tiles.configure(t.packing, sizes);
  }

  // --- decoding
  void store(Value x, Value word) { e.store_vector(as(f32s(), x), t.packing, word); }
  Value load_words(Value word) { return as(i32s(), e.load_vector(t.packing, word, kSide)); }
  Value load_floats(Value word) { return e.load_vector(t.packing, word, kSide); }
  // `to`: the tiles of 16 columns.
  Value scale_at(Value to, Value block) { return e.add(e.mul(block, kSide), e.add(to, at.scales)); }
  Value minimum_at(Value to, Value block, int64_t i) {
    return e.add(e.mul(block, AmxBytesLayout::kMinima * kSide), e.add(to, at.minima + i * kSide));
  }

  // Decodes 16 columns from column j on, the `c`-th tile of columns.
  void decode(Value j, Value c, const Blocks& blocks) {
    const BlockColumns columns(e, t, j);
    Value to = e.add(e.mul(c, at.pitch), at.tiles);
    e.loop(e.idx(0), blocks.count, 1, [&](Value block) {
      Value number = e.add(blocks.first, block);
      for (int64_t g = 0; g < f.groups(); ++g)
        prefetch_group(e, t, f, e.add(j, t.register_columns), e.add(e.mul(number, f.groups()), g));
      ByteBlock b(e, t, f, columns, number);
      has_group_scales(f) ? decode_planes(b, block, to) : decode_group(b, block, to);
    });
  }

  void decode_group(ByteBlock& b, Value block, Value to) {
    const Values words = b.words(0, 0);
    for (int64_t w = 0; w < kWords; ++w) {
      Value x = words[w];
      if (f.offset) x = as(i32s(), sub(as(i8s(), x), all(i8s(), f.offset)));
      store(x, e.add(e.mul(block, kWords * kSide), e.add(to, w * kSide)));
    }
    e.store_vector(b.scale(0, 0), t.packing, scale_at(to, block));
    if (f.has_minimum) e.store_vector(b.minimum(), t.packing, minimum_at(to, block, 0));
  }

  // The products of weights and integer scales: their lower bytes, and their upper ones.
  void decode_planes(ByteBlock& b, Value block, Value to) {
    Value first = e.add(e.mul(block, f.block * kSide / 2), to);
    const int64_t part_words = kWords / f.scales_of_group();
    for (int64_t g = 0; g < f.groups(); ++g) {
      Values words;
      Value scale;
      for (int64_t w = 0; w < kWords; ++w) {
        if (w % part_words == 0) {
          words.append(b.words(g, w / part_words));
          Value of_group = b.group_scale(g, w / part_words);
          scale = as(i16s(), either(masked(of_group, 0xffff), up(of_group, 16)));
        }
        Value x = as(i16s(), words[w]), even = masked(x, 0xff), odd = down(x, 8);
        const auto times = [&](Value bytes) {
          return mul(f.offset ? sub(bytes, all(i16s(), f.offset)) : bytes, scale);
        };
        even = times(even), odd = times(odd);
        const int64_t line = (g % 2 * kWords + w) * kSide + g / 2 * 2 * kTileWords;
        const auto put = [&](Value plane, int64_t offset) {
          store(as(i32s(), plane), e.add(first, line + offset));
        };
        put(either(masked(even, 0xff), up(odd, 8)), 0);
        put(either(down(even, 8), masked(odd, 0xff00 - 0x10000)), kTileWords);
      }
    }
    e.store_vector(b.block_scale(), t.packing, scale_at(to, block));
    if (!f.has_minimum) return;
    for (int64_t p = 0; p < f.groups() / 2; ++p) store(b.minimum_pair(p), minimum_at(to, block, p));
    e.store_vector(b.minimum_scale(), t.packing, minimum_at(to, block, f.groups() / 2));
  }

  // --- products
  // Field `word` of the row that is `r` below the one whose fields begin at `row`, in all lanes.
  Value field(Value row, int64_t r, Value word) {
    return e.broadcast(e.load(t.packing, e.add(e.add(row, word), r * at.rows.pitch)), kSide);
  }
  Value fields_of(Value i) { return e.add(at.rows.row(e, i), at.a); }
  Value accumulator(Value i, Value j) { return e.add(e.mul(i, t.ld), j); }
  Value a_tiles(Value i) {
    return e.add(e.mul(e.div(i, e.idx(kSide)), at.rows.groups * kSide * kWords), at.a);
  }
  // Sums go from tiles to vectors through memory. A vector load waits until a tile store before it is complete, so turn
  // n stores the sums of turn n + 1, in the other one of two buffers, and multiplies for turn n + 2.
  Value buffer(Value turn) {
    return e.add(e.mul(e.rem(turn, e.idx(2)), AmxBytesLayout::kSumTiles * kTileWords), at.sums);
  }
  void store_sums(int64_t tile, Value buffer, int64_t slot) {
    tiles.store(tile, place(e.add(buffer, slot * kTileWords), kSide));
  }
  Value load_sums(Value buffer, int64_t slot, Value line) {
    return load_words(e.add(e.add(buffer, line), slot * kTileWords));
  }

  // 16 columns by all rows, 16 rows and two groups at a time.
  void multiply_groups(Value j, const Blocks& groups) {
    Value to = e.idx(at.tiles), last = e.sub(groups.count, e.idx(1));
    const auto multiply = [&](Value a, Value g0) {
      for (int64_t slot = 0; slot < 2; ++slot) {
        Value g = e.min(e.add(g0, slot), last);
        tiles.zero(3 * slot);
        load_a(3 * slot + 1, e.add(a, e.mul(g, kSide * kWords)));
        load_b(3 * slot + 2, e.add(e.mul(g, kWords * kSide), to));
        tiles.multiply("llvm.x86.tdpbssd", 3 * slot, 3 * slot + 1, 3 * slot + 2);
      }
    };
    const auto store = [&](Value turn) {
      for (int64_t slot = 0; slot < 2; ++slot) store_sums(3 * slot, buffer(turn), slot);
    };
    const auto scale = [&](Value fields, Value g, Value from, int64_t slot, Values x) {
      Value of_b = load_floats(scale_at(to, g)), word = e.add(groups.first, g);
      Value minimum = f.has_minimum ? load_floats(minimum_at(to, g, 0)) : Value();
      for (int64_t r = 0; r < kSide; ++r) {
        Value of_a = field(fields, r, e.add(word, at.rows.scales));
        x[r] = e.fma(to_f32(load_sums(from, slot, e.idx(r * kSide))), mul(of_b, of_a), x[r]);
        if (minimum) x[r] = e.fma(minimum, field(fields, r, e.add(word, at.rows.minima)), x[r]);
      }
      return x;
    };
    e.loop(e.idx(0), t.rows, kSide, [&](Value i) {
      Value a = e.add(a_tiles(i), e.mul(groups.first, kSide * kWords)), fields = fields_of(i);
      Value first = accumulator(i, j), pairs = e.div(groups.count, e.idx(2));
      Values sums;
      for (int64_t r = 0; r < kSide; ++r)
        sums.push_back(e.load_vector(t.accumulators, e.add(first, r * t.ld), kSide));
      multiply(a, e.idx(0));
      store(e.idx(0));
      multiply(a, e.idx(2));
      sums = e.loop(e.idx(0), pairs, 1, sums, [&](Value turn, const Values& carried) {
        Value g = e.mul(turn, 2), from = buffer(turn);
        store(e.add(turn, 1));
        multiply(a, e.add(g, 4));
        return scale(fields, e.add(g, 1), from, 1, scale(fields, g, from, 0, carried));
      });
      // The last of an odd number of groups.
      sums = e.loop(e.mul(pairs, 2), groups.count, 1, sums, [&](Value g, const Values& carried) {
        return scale(fields, g, buffer(pairs), 0, carried);
      });
      for (int64_t r = 0; r < kSide; ++r) e.store_vector(sums[r], t.accumulators, e.add(first, r * t.ld));
    });
  }

  // A turn of multiply_planes(): 16 rows from row i on, and a block of the K block.
  struct Turn {
    Value i, block;
  };
  Turn after(const Turn& turn, const Blocks& blocks) {
    Value next = e.add(turn.block, 1), more = e.less(next, blocks.count);
    return {select(e, more, turn.i, e.add(turn.i, kSide)), select(e, more, next, e.idx(0))};
  }

  // 32 columns by all rows, 16 rows and a block at a time.
  void multiply_planes(Value j, const Blocks& blocks) {
    constexpr int64_t kA = 4, kB = 5;  // tiles beside the sums, which are by tile of columns and plane
    const int64_t steps = f.groups() / 2;
    Value row_tiles = e.ceil_div(t.rows, e.idx(kSide)), last = e.mul(e.sub(row_tiles, e.idx(1)), kSide);
    const auto multiply = [&](const Turn& turn) {
      Value a =
          e.add(a_tiles(e.min(turn.i, last)), e.mul(e.add(blocks.first, turn.block), steps * kTileWords));
      Value b = e.add(e.mul(turn.block, steps * 2 * kTileWords), at.tiles);
      for (int64_t s = 0; s < AmxBytesLayout::kSumTiles; ++s) tiles.zero(s);
      for (int64_t step = 0; step < steps; ++step) {
        load_a(kA, e.add(a, step * kTileWords));
        for (int64_t s = 0; s < AmxBytesLayout::kSumTiles; ++s) {
          const int64_t tile = kB + s % 3, plane = s % 2;
          load_b(tile, e.add(b, s / 2 * at.pitch + (2 * step + plane) * kTileWords));
          tiles.multiply(plane == 0 ? "llvm.x86.tdpbsud" : "llvm.x86.tdpbssd", s, kA, tile);
        }
      }
    };
    const auto store = [&](Value turn) {
      for (int64_t s = 0; s < AmxBytesLayout::kSumTiles; ++s) store_sums(s, buffer(turn), s);
    };
    const Turn start{e.idx(0), e.idx(0)}, second = after(start, blocks), third = after(second, blocks);
    multiply(start);
    store(e.idx(0));
    multiply(second);
    e.loop(e.idx(0), e.mul(row_tiles, blocks.count), 1, {start.i, start.block, third.i, third.block},
           [&](Value number, const Values& carried) -> Values {
             const Turn now{carried[0], carried[1]}, ahead{carried[2], carried[3]};
             store(e.add(number, 1));
             multiply(ahead);
             scale_planes(now, j, buffer(number), blocks);
             const Turn next = after(now, blocks), later = after(ahead, blocks);
             return {next.i, next.block, later.i, later.block};
           });
  }

  void scale_planes(const Turn& turn, Value j, Value from, const Blocks& blocks) {
    constexpr int64_t kUnroll = 4;
    struct Columns {
      Value scale, of_minima;
      Values minima;
    };
    std::vector<Columns> columns;
    for (int64_t c = 0; c < column_tiles(f); ++c) {
      Value to = e.idx(at.tiles + c * at.pitch);
      columns.push_back({load_floats(scale_at(to, turn.block)), nullptr, {}});
      if (!f.has_minimum) continue;
      for (int64_t p = 0; p < f.groups() / 2; ++p)
        columns.back().minima.push_back(as(i16s(), load_words(minimum_at(to, turn.block, p))));
      columns.back().of_minima = load_floats(minimum_at(to, turn.block, f.groups() / 2));
    }
    Value of_rows = e.add(blocks.first, turn.block);
    Value scale_word = e.add(e.mul(of_rows, f.groups()), at.rows.scales);
    Value minimum_word = e.add(e.mul(of_rows, f.groups() / 2), at.rows.minima);
    e.loop(e.idx(0), e.idx(kSide), kUnroll, [&](Value r0) {
      Value i = e.add(turn.i, r0), fields = fields_of(i), first = accumulator(i, j), line = e.mul(r0, kSide);
      for (int64_t u = 0; u < kUnroll; ++u) {
        Value of_a = field(fields, u, scale_word);
        for (int64_t c = 0; c < column_tiles(f); ++c) {
          Value to = e.add(line, u * kSide), upper = load_sums(from, 2 * c + 1, to);
          Value exact = add(load_sums(from, 2 * c, to), up(upper, 8));
          Value place = e.add(first, u * t.ld + c * kSide);
          Value sum = e.load_vector(t.accumulators, place, kSide);
          sum = e.fma(to_f32(exact), mul(columns[c].scale, of_a), sum);
          if (f.has_minimum)
            sum = e.fma(to_f32(minima_of(fields, u, minimum_word, columns[c].minima)),
                        mul(columns[c].of_minima, of_a), sum);
          e.store_vector(sum, t.accumulators, place);
        }
      }
    });
  }

  // The exact sum of all minima of a block, times the sums of A's bytes.
  Value minima_of(Value fields, int64_t r, Value word, const Values& minima) {
    Value exact;
    for (size_t p = 0; p < minima.size(); ++p) {
      Value a = as(i16s(), field(fields, r, e.add(word, static_cast<int64_t>(p))));
      Value x = call("llvm.x86.avx512.pmaddw.d.512", i32s(), {minima[p], a});
      exact = exact ? add(exact, x) : x;
    }
    return exact;
  }

  const CpuTile& t;
  const ByteFormat& f;
  const AmxBytesLayout at;
  const AmxTiles tiles;
};

int64_t packing_words(const CpuTile& t) { return AmxBytesLayout(t, ByteFormat(t.b.blocks, t.vnni)).words; }

std::string refusal(const CpuTile& t) {
  if (!CpuBlocks::holds(t.b) || !t.a_k_contiguous || t.lanes != kSide)
    return "needs B in blocks, a K-contiguous A and 16 lanes";
  const ByteFormat f(t.b.blocks, t.vnni);
  if (t.register_rows != kSide || t.register_columns != column_tiles(f) * kSide)
    return absl::StrCat("the register tile must be ", kSide, " x ", column_tiles(f) * kSide);
  if (t.packed_word && t.tile_columns % kPackedColumns != 0)
    return "tile_n is not a multiple of the columns of a packed panel";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNear) return "prefetch must be 1 or 2";
  if (t.tile_k <= 0 || t.tile_k % f.block != 0)
    return "tile_k is not a positive multiple of a block's elements";
  return "";
}

void emit_tile(Emit& e, const CpuTile& t) { AmxBytes(e, t, ByteFormat(t.b.blocks, t.vnni)).run(); }

}  // namespace

const CpuForm kAmxBytesForm = {refusal, packing_words, emit_tile};

}  // namespace lathe::emit
