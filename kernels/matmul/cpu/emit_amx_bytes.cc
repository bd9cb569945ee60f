// "amx_bytes": as "bytes" for many rows. The blocks of 16 columns are decoded once per K block, to AMX tiles of bytes,
// and multiplied with all rows of the task, whose bytes lie in tiles too.
//
// A format with a scale for each 32 elements uses tiles of that depth and scales every product of tiles. In a format
// with integer scales inside blocks of 256 (q4_k and its kin) a weight times its integer scale is a number of 16 bits:
// its lower and its upper byte are two tiles, whose products are summed exactly over the whole block.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_rounding.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kSide = 16;        // lines of a tile; words of a line; lanes
constexpr int64_t kTileWords = 256;  // of a whole tile
constexpr int64_t kWords = ByteFormat::kWords;

bool has_group_scales(const ByteFormat& f) { return f.groups() > 1; }

// Where everything lies in the packing memory, in words.
struct AmxBytesLayout {
  AmxBytesLayout(const CpuTile& t, const ByteFormat& f)
      : depth(std::min(t.tile_k, round_up(t.most_depth, f.block))),
        rows(f, round_up(t.tile_rows, t.register_rows), depth, kSide, RoundedRows::Bytes::kInTiles,
             has_group_scales(f) ? 2 : 1),
        a(kSide),  // after the tile configuration
        tiles(a + rows.words),
        scales(tiles + depth * kSide / 4 * (has_group_scales(f) ? 2 : 1)),
        minima(scales + depth / f.block * kSide),
        sums(minima + (f.has_minimum ? depth / f.block * kMinima * kSide : 0)),
        words(sums + 4 * kTileWords) {}
  static constexpr int64_t kMinima = 5;  // vectors per block: four of pairs and their scale, or one
  int64_t depth;
  RoundedRows rows;
  int64_t a, tiles, scales, minima, sums, words;
};

class AmxBytes : ByteArithmetic {
 public:
  AmxBytes(Emit& emit, const CpuTile& tile, const ByteFormat& format)
      : ByteArithmetic{{emit, tile.lanes}}, t(tile), f(format), at(tile, format) {}

  void run() {
    configure();
    e.loop(e.idx(0), e.mul(e.idx(round_up(t.tile_rows, t.register_rows)), t.ld), kSide,
           [&](Value i) { e.store_vector(e.splat(f32s(), 0.0), t.accumulators, i); });
    e.loop(e.idx(0), t.depth, t.tile_k, [&](Value k0) {
      Value depth = e.min(e.idx(t.tile_k), e.sub(t.depth, k0));
      Value first = e.div(k0, e.idx(f.block)), blocks = e.div(depth, e.idx(f.block));
      round_rows(e, t, f, at.rows, at.a, k0, depth);
      e.loop(e.idx(0), t.columns, kSide, [&](Value j) {
        const BlockColumns columns(e, t, j);
        e.loop(e.idx(0), blocks, 1, [&](Value block) {
          ByteBlock b(e, t, f, columns, e.add(first, block));
          has_group_scales(f) ? decode_planes(b, block) : decode_group(b, block);
        });
        e.loop(e.idx(0), t.rows, t.register_rows, [&](Value i) {
          has_group_scales(f) ? multiply_planes(i, j, blocks) : multiply_groups(i, j, blocks);
        });
      });
    });
    call("llvm.x86.tilerelease", {});
  }

 private:
  // --- tiles
  Value number(int64_t tile) {
    return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI8Type(), e.b.getI8IntegerAttr(tile));
  }
  void call(const char* name, ValueRange operands) {
    LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(name), operands);
  }
  void move(const char* name, int64_t tile, Value word, int64_t line_words) {
    Value pitch =
        LLVM::ConstantOp::create(e.b, e.loc, e.b.getI64Type(), e.b.getI64IntegerAttr(line_words * 4));
    call(name, {number(tile), pointer_to(e, t.packing, word), pitch});
  }
  void load_a(int64_t tile, Value word) {
    move("llvm.x86.tileloadd64", tile, word, at.rows.tile_groups * kWords);
  }
  void load_b(int64_t tile, Value word) { move("llvm.x86.tileloadd64", tile, word, kSide); }
  void multiply_tiles(const char* name, int64_t sum, int64_t a, int64_t b) {
    call(name, {number(sum), number(a), number(b)});
  }
  void zero(int64_t tile) { call("llvm.x86.tilezero", {number(tile)}); }

  // Palette 1. Tiles kA are the rows of A, kB columns of B, all others are sums (Intel SDM, LDTILECFG).
  void configure() {
    const bool whole = has_group_scales(f);
    uint8_t bytes[64] = {1};
    for (int64_t tile = 0; tile < 8; ++tile) {
      const bool is_a = !whole && (tile == 1 || tile == 4), is_b = !whole && (tile == 2 || tile == 5);
      bytes[16 + 2 * tile] = is_a ? 32 : 64;
      bytes[48 + tile] = is_b ? 8 : 16;
    }
    SmallVector<int32_t> words(kSide);
    std::memcpy(words.data(), bytes, sizeof(bytes));
    Value config =
        arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i32s(), llvm::ArrayRef(words)));
    e.store_vector(as(f32s(), config), t.packing, e.idx(0));
    call("llvm.x86.ldtilecfg", {pointer_to(e, t.packing, e.idx(0))});
  }

  // --- decoding
  void store(Value x, Value word) { e.store_vector(as(f32s(), x), t.packing, word); }
  Value load_words(Value word) { return as(i32s(), e.load_vector(t.packing, word, kSide)); }
  Value load_floats(Value word) { return e.load_vector(t.packing, word, kSide); }
  Value scale_at(Value block) { return e.add(e.mul(block, kSide), at.scales); }
  Value minimum_at(Value block, int64_t i) {
    return e.add(e.mul(block, AmxBytesLayout::kMinima * kSide), at.minima + i * kSide);
  }

  void decode_group(ByteBlock& b, Value block) {
    const VectorType bytes = e.vec(4 * kSide, e.b.getI8Type());
    const Values words = b.words(0);
    for (int64_t w = 0; w < kWords; ++w) {
      Value x = words[w];
      if (f.offset) {
        Value offset = arith::ConstantOp::create(
            e.b, e.loc, SplatElementsAttr::get(bytes, e.b.getI8IntegerAttr(static_cast<int8_t>(f.offset))));
        x = arith::SubIOp::create(e.b, e.loc, vector::BitCastOp::create(e.b, e.loc, bytes, x), offset);
        x = vector::BitCastOp::create(e.b, e.loc, i32s(), x);
      }
      store(x, e.add(e.mul(block, kWords * kSide), at.tiles + w * kSide));
    }
    e.store_vector(b.scale(0, 0), t.packing, scale_at(block));
    if (f.has_minimum) e.store_vector(b.minimum(), t.packing, minimum_at(block, 0));
  }

  // Vectors of 16-bit numbers, two in each lane.
  VectorType shorts() { return e.vec(2 * kSide, e.b.getIntegerType(16)); }
  Value as_shorts(Value x) { return vector::BitCastOp::create(e.b, e.loc, shorts(), x); }
  Value all_shorts(int64_t x) {
    return arith::ConstantOp::create(
        e.b, e.loc, SplatElementsAttr::get(shorts(), e.b.getIntegerAttr(e.b.getIntegerType(16), x)));
  }
  Value masked(Value x, int64_t mask) { return arith::AndIOp::create(e.b, e.loc, x, all_shorts(mask)); }
  Value up(Value x) { return arith::ShLIOp::create(e.b, e.loc, x, all_shorts(8)); }
  Value down(Value x) { return arith::ShRUIOp::create(e.b, e.loc, x, all_shorts(8)); }
  Value either(Value x, Value y) { return arith::OrIOp::create(e.b, e.loc, x, y); }

  // The products of weights and integer scales: their lower bytes, and their upper ones.
  void decode_planes(ByteBlock& b, Value block) {
    Value tiles = e.add(e.mul(block, f.block * kSide / 2), at.tiles);
    const int64_t part_words = kWords / f.scales_of_group();
    for (int64_t g = 0; g < f.groups(); ++g) {
      const Values words = b.words(g);
      Value scale;
      for (int64_t w = 0; w < kWords; ++w) {
        if (w % part_words == 0) {
          Value of_group = b.group_scale(g, w / part_words);
          Value lower = arith::AndIOp::create(e.b, e.loc, of_group, all(0xffff));
          scale = as_shorts(either(lower, arith::ShLIOp::create(e.b, e.loc, of_group, all(16))));
        }
        Value x = as_shorts(words[w]), even = masked(x, 0xff), odd = down(x);
        const auto times = [&](Value bytes) -> Value {
          if (f.offset) bytes = arith::SubIOp::create(e.b, e.loc, bytes, all_shorts(f.offset));
          return arith::MulIOp::create(e.b, e.loc, bytes, scale);
        };
        even = times(even), odd = times(odd);
        const int64_t line = (g % 2 * kWords + w) * kSide + g / 2 * 2 * kTileWords;
        const auto put = [&](Value plane, int64_t offset) {
          store(vector::BitCastOp::create(e.b, e.loc, i32s(), plane), e.add(tiles, line + offset));
        };
        put(either(masked(even, 0xff), up(odd)), 0);
        put(either(down(even), masked(odd, 0xff00 - 0x10000)), kTileWords);
      }
    }
    e.store_vector(b.block_scale(), t.packing, scale_at(block));
    if (!f.has_minimum) return;
    for (int64_t p = 0; p < f.groups() / 2; ++p) store(b.minimum_pair(p), minimum_at(block, p));
    e.store_vector(b.minimum_scale(), t.packing, minimum_at(block, f.groups() / 2));
  }

  // --- products
  // A field of row i of A in all lanes.
  Value field(Value i, Value word) {
    return e.broadcast(e.load(t.packing, e.add(e.add(at.rows.row(e, i), at.a), word)), kSide);
  }
  Value accumulator(Value i, Value j) { return e.add(e.mul(i, t.ld), j); }
  Value a_tiles(Value i) {
    return e.add(e.mul(e.div(i, e.idx(kSide)), at.rows.groups * kSide * kWords), at.a);
  }

  // 16 rows by 16 columns; two groups at a time, so that tiles and vectors work side by side.
  void multiply_groups(Value i, Value j, Value groups) {
    Value a = a_tiles(i);
    Values sums;
    for (int64_t r = 0; r < kSide; ++r)
      sums.push_back(e.load_vector(t.accumulators, accumulator(e.add(i, r), j), kSide));
    const auto tile = [&](Value g, int64_t slot) {
      zero(3 * slot);
      load_a(3 * slot + 1, e.add(a, e.mul(g, kSide * kWords)));
      load_b(3 * slot + 2, e.add(e.mul(g, kWords * kSide), at.tiles));
      multiply_tiles("llvm.x86.tdpbssd", 3 * slot, 3 * slot + 1, 3 * slot + 2);
      move("llvm.x86.tilestored64", 3 * slot, e.idx(at.sums + slot * kTileWords), kSide);
    };
    const auto scale = [&](Value g, int64_t slot, Values x) {
      Value of_b = load_floats(scale_at(g)),
            minimum = f.has_minimum ? load_floats(minimum_at(g, 0)) : Value();
      for (int64_t r = 0; r < kSide; ++r) {
        Value exact = load_words(e.idx(at.sums + slot * kTileWords + r * kSide)), row = e.add(i, r);
        x[r] = e.fma(to_f32(exact), mul(of_b, field(row, e.add(g, at.rows.scales))), x[r]);
        if (minimum) x[r] = e.fma(minimum, field(row, e.add(g, at.rows.minima)), x[r]);
      }
      return x;
    };
    Value pairs = e.mul(e.div(groups, e.idx(2)), 2);
    sums = e.loop(e.idx(0), pairs, 2, sums, [&](Value g, const Values& carried) {
      Value next = e.add(g, 1);
      tile(g, 0);
      tile(next, 1);
      return scale(next, 1, scale(g, 0, carried));
    });
    sums = e.loop(pairs, groups, 1, sums, [&](Value g, const Values& carried) {
      tile(g, 0);
      return scale(g, 0, carried);
    });
    for (int64_t r = 0; r < kSide; ++r) e.store_vector(sums[r], t.accumulators, accumulator(e.add(i, r), j));
  }

  // 32 rows by 16 columns. Tiles 0 to 3: the sums of both planes of the first rows, then of the others.
  void multiply_planes(Value i, Value j, Value blocks) {
    constexpr int64_t kA = 4, kB = 6, kRowTiles = 2, kPlanes = 2;
    const int64_t steps = f.groups() / 2;
    Value a = a_tiles(i);
    e.loop(e.idx(0), blocks, 1, [&](Value block) {
      for (int64_t s = 0; s < kRowTiles * kPlanes; ++s) zero(s);
      for (int64_t step = 0; step < steps; ++step) {
        Value k = e.add(e.mul(block, steps), step);
        for (int64_t r = 0; r < kRowTiles; ++r)
          load_a(kA + r, e.add(e.add(a, e.mul(k, kTileWords)), r * at.rows.groups * kSide * kWords));
        for (int64_t plane = 0; plane < kPlanes; ++plane) {
          load_b(kB + plane, e.add(e.mul(k, kPlanes * kTileWords), at.tiles + plane * kTileWords));
          for (int64_t r = 0; r < kRowTiles; ++r)
            multiply_tiles(plane == 0 ? "llvm.x86.tdpbsud" : "llvm.x86.tdpbssd", r * kPlanes + plane, kA + r,
                           kB + plane);
        }
      }
      for (int64_t s = 0; s < kRowTiles * kPlanes; ++s)
        move("llvm.x86.tilestored64", s, e.idx(at.sums + s * kTileWords), kSide);
      scale_planes(i, j, block);
    });
  }

  void scale_planes(Value i, Value j, Value block) {
    constexpr int64_t kRows = 2 * kSide, kUnroll = 4;
    Value of_b = load_floats(scale_at(block)), of_minima;
    Values minima;
    for (int64_t p = 0; f.has_minimum && p < f.groups() / 2; ++p)
      minima.push_back(as_shorts(load_words(minimum_at(block, p))));
    if (f.has_minimum) of_minima = load_floats(minimum_at(block, f.groups() / 2));
    Value group = e.mul(block, f.groups());
    e.loop(e.idx(0), e.idx(kRows), kUnroll, [&](Value r0) {
      for (int64_t u = 0; u < kUnroll; ++u) {
        Value r = e.add(r0, u), row = e.add(i, r);
        // Rows of the second tile come after both planes of the first.
        Value tile = e.mul(e.div(r, e.idx(kSide)), kTileWords);
        Value lower = e.add(e.add(e.mul(r, kSide), tile), at.sums);
        Value high = arith::ShLIOp::create(e.b, e.loc, load_words(e.add(lower, kTileWords)), all(8));
        Value exact = add(load_words(lower), high);
        Value of_a = field(row, e.add(group, at.rows.scales));
        Value sum = e.load_vector(t.accumulators, accumulator(row, j), kSide);
        sum = e.fma(to_f32(exact), mul(of_b, of_a), sum);
        if (f.has_minimum) sum = e.fma(to_f32(minima_of(row, block, minima)), mul(of_minima, of_a), sum);
        e.store_vector(sum, t.accumulators, accumulator(row, j));
      }
    });
  }

  // The exact sum of all minima of a block, times the sums of A's bytes.
  Value minima_of(Value row, Value block, const Values& minima) {
    Value exact;
    const auto count = static_cast<int64_t>(minima.size());
    for (int64_t p = 0; p < count; ++p) {
      Value a = as_shorts(field(row, e.add(e.mul(block, count), at.rows.minima + p)));
      Value x =
          LLVM::CallIntrinsicOp::create(e.b, e.loc, i32s(), e.b.getStringAttr("llvm.x86.avx512.pmaddw.d.512"),
                                        ValueRange{minima[p], a})
              .getResult(0);
      exact = exact ? add(exact, x) : x;
    }
    return exact;
  }

  const CpuTile& t;
  const ByteFormat& f;
  const AmxBytesLayout at;
};

}  // namespace

int64_t amx_bytes_packing_elements(const CpuTile& t) {
  return AmxBytesLayout(t, ByteFormat(t.b.blocks, t.lanes)).words;
}

std::string amx_bytes_refusal(const CpuTile& t) {
  if (!CpuBlocks::holds(t.b) || !t.a_k_contiguous || t.lanes != kSide)
    return "needs B in blocks, a K-contiguous A and 16 lanes";
  const ByteFormat f(t.b.blocks, t.lanes);
  const int64_t rows = has_group_scales(f) ? 2 * kSide : kSide;
  if (t.register_rows != rows || t.register_columns != kSide)
    return absl::StrCat("the register tile must be ", rows, " x ", kSide);
  if (t.tile_k <= 0 || t.tile_k % f.block != 0)
    return "tile_k is not a positive multiple of a block's elements";
  return "";
}

void emit_amx_bytes(Emit& e, const CpuTile& t) { AmxBytes(e, t, ByteFormat(t.b.blocks, t.lanes)).run(); }

}  // namespace lathe::emit
