// "amx", "amx_t" and "amx_packed": AMX tiles of 16 lines by 64 bytes of each operand and 16 by 16 sums. As
// in "panel", B's columns are packed into panels for every tile_k of K, here of 16 columns, word by word
// along K, so that a tile is 1 KiB of contiguous memory. Then each register_m rows of A are multiplied with
// all panels. Rows of A lie along K and are loaded in place, or from a copy in L1 that is tile_k deep
// (copy_rows). "amx_t": the transposed product. "amx_packed": B was packed in advance (core/packed.h), into
// panels that are such tiles.
//
// Numeric recipe: with pairs of bf16, a tile's 16 products of even K and those of odd K are summed apart,
// added to each other, then to the sum (Intel SDM, TDPBF16PS); tiles in ascending order, blocks of tile_k
// added in ascending order. Subnormal numbers count as 0. Bytes are exact.
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "core/packed.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_amx_tiles.h"
#include "kernels/matmul/cpu/emit_nest.h"
#include "kernels/matmul/cpu/emit_pack.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kSide = AmxTiles::kSide, kTileWords = AmxTiles::kTileWords;
constexpr int64_t kLineBytes = 64;  // of a tile

int64_t b_words(const CpuTile& t) {
  return t.packed_word ? 0 : round_up(t.tile_columns, t.register_columns) * panel_depth(t);
}

class Amx {
 public:
  Amx(Emit& emit, const CpuTile& tile)
      : e(emit), t(tile), tiles{emit}, rows_(t.register_rows / kSide), columns_(t.register_columns / kSide) {}

  void run() {
    tiles.configure(t.packing, {});
    CpuNest nest;
    nest.rows_first = true;
    nest.pass_columns = t.register_columns;
    nest.packs_last_rows = true;  // tile loads would read past the last row
    nest.panel = kTileWords / kSide + b_words(t);
    nest.begin_block = [this](const NestBlock& block) {
      ColumnPanels panels{kSide, kTileWords / kSide};
      panels.whole_vectors = true;
      if (!t.packed_word) pack_columns(e, t, block, panels);
    };
    nest.pack_rows = [this](const NestBlock& block, Value i, Value panel) {
      pack_rows(e, t, block, i, panel);
    };
    nest.tile = [this](const NestBlock& block, const NestRows& rows, const NestColumns& columns) {
      multiply(block, rows, columns.j);
    };
    emit_nest(e, t, nest);
    tiles.release();
  }

 private:
  using Place = AmxTiles::Place;
  void fetch(Value i, Value j, Value k0, Value step);
  void multiply(const NestBlock& block, const NestRows& rows, Value j);

  int64_t sum(int64_t r, int64_t c) const { return r * columns_ + c; }
  int64_t of_a(int64_t r) const { return rows_ * columns_ + r; }
  // The remaining registers, in turn.
  int64_t of_b(int64_t c) const {
    const int64_t first = rows_ * columns_ + rows_;
    return first + c % std::min(columns_, AmxTiles::kRegisters - first);
  }
  Place sums_at(Value at_row, Value j, int64_t r, int64_t c) {
    Value at = e.add(e.mul(e.add(at_row, r * kSide), t.ld), e.add(j, c * kSide));
    return {t.accumulators, at, e.idx(t.ld * 4)};
  }
  Place a_at(const NestRows& rows, Value k0, Value step, int64_t r) {
    if (!rows.in_place) {
      Value at = e.add(e.add(rows.panel, r * kSide * row_pitch(t)), e.mul(step, kSide));
      return {t.packing, at, e.idx(row_pitch(t) * 4)};
    }
    Value line = e.add(t.a.offset, e.mul(e.add(rows.i, r * kSide), t.a.row_stride));
    return {t.a.memory, e.add(line, e.add(k0, e.mul(step, t.words.width()))),
            e.mul(t.a.row_stride, kLineBytes / elements_of_line(t.a))};
  }
  Place b_at(Value j, Value k0, Value step, int64_t c) {
    if (!t.packed_word) {
      Value panel = e.mul(e.add(j, c * kSide), panel_depth(t));
      return {t.packing, e.add(e.add(panel, kTileWords / kSide), e.mul(step, kTileWords)), e.idx(kLineBytes)};
    }
    // Columns past the last panel read it again.
    Value column = e.min(e.add(j, c * kSide), last_panel(e, t));
    Value k = e.add(k0, e.mul(step, t.words.width()));
    return {t.b.memory, panel_at(e, t, column, k), e.idx(kLineBytes)};
  }

  Emit& e;
  const CpuTile& t;
  const AmxTiles tiles;
  const int64_t rows_, columns_;  // of the register tile, in AMX tiles
};

// Each pass over a panel of rows prefetches its share of the next panel: one line of each of its rows per
// step.
void Amx::fetch(Value i, Value j, Value k0, Value step) {
  if (t.fetch == CpuFetch::kNone) return;
  const int64_t passes = ceil_div(t.tile_columns, t.register_columns),
                part = ceil_div(t.register_rows, passes);
  Value k = e.add(k0, e.mul(step, t.words.width()));
  for (int64_t r = 0; r < part; ++r) {
    Value row = e.add(e.mul(e.div(j, e.idx(t.register_columns)), part), r);
    e.prefetch(t.a.memory, row_of_a(e, t, e.add(e.add(i, t.register_rows), row), k), kIntoL2);
  }
}

void Amx::multiply(const NestBlock& block, const NestRows& rows, Value j) {
  const auto every_sum = [&](const std::function<void(int64_t, int64_t)>& body) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) body(r, c);
  };
  const auto zero = [&] {
    every_sum([&](int64_t r, int64_t c) { tiles.zero(sum(r, c)); });
    return Values{};
  };
  const auto go_on = [&] {
    every_sum([&](int64_t r, int64_t c) { tiles.load(sum(r, c), sums_at(rows.at_row, j, r, c)); });
    return Values{};
  };
  e.choose(e.equal(block.k0, e.idx(0)), {}, zero, go_on);
  const char* product = t.words.per_lane() == 4 ? "llvm.x86.tdpbssd" : "llvm.x86.tdpbf16ps";
  e.loop(e.idx(0), e.ceil_div(block.depth, e.idx(t.words.width())), 1, [&](Value step) {
    fetch(rows.i, j, block.k0, step);
    for (int64_t r = 0; r < rows_; ++r) tiles.load(of_a(r), a_at(rows, block.k0, step, r));
    for (int64_t c = 0; c < columns_; ++c) {
      tiles.load_streamed(of_b(c), b_at(j, block.k0, step, c));
      for (int64_t r = 0; r < rows_; ++r) tiles.multiply(product, sum(r, c), of_a(r), of_b(c));
    }
  });
  every_sum([&](int64_t r, int64_t c) { tiles.store(sum(r, c), sums_at(rows.at_row, j, r, c)); });
}

int64_t packing_words(const CpuTile& t) {
  return kTileWords / kSide + b_words(t) + t.register_rows * row_pitch(t) + kSide;
}

std::string refusal(const CpuTile& t) {
  const int64_t mr = t.register_rows, nr = t.register_columns, rows = mr / kSide, columns = nr / kSide;
  if (mr % kSide || nr % kSide || rows * columns + rows + 1 > AmxTiles::kRegisters)
    return absl::StrCat("register tile ", mr, " x ", nr, " must be whole AMX tiles of ", kSide, " x ", kSide,
                        " that fit ", AmxTiles::kRegisters, " tile registers");
  if (t.a_in_place && t.a.lists_rows()) return "tile loads need rows that follow each other at one distance";
  if (t.words.per_lane() == 1 || t.lanes != kSide) return "AMX needs bf16 pairs or bytes, and 16 lanes";
  if (t.tile_k <= 0 || t.tile_k % t.words.width() != 0)
    return "tile_k is not a positive multiple of a tile's elements";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNone) return "prefetch must be 1 or 5";
  return "";
}

void emit_tile(Emit& e, const CpuTile& t) { Amx(e, t).run(); }

}  // namespace

const CpuForm kAmxForm = {refusal, packing_words, emit_tile};

}  // namespace lathe::emit
