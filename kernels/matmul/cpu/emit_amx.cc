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
#include "kernels/matmul/cpu/emit_pack.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kSide = 16;        // lines of a tile; words of a line
constexpr int64_t kTileWords = 256;  // of 32 bits
constexpr int64_t kLineBytes = 64;   // of a tile
constexpr int64_t kRegisters = 8;    // tile registers
constexpr int64_t kSlack =
    kSide;  // words between the lines of a copy, so that they do not all begin in one cache set

int64_t depth_words(const CpuTile& t) { return t.tile_k / t.words.per_lane(); }
int64_t b_words(const CpuTile& t) {
  return t.packed_word ? 0 : round_up(t.tile_columns, t.register_columns) * depth_words(t);
}
int64_t a_pitch(const CpuTile& t) { return depth_words(t) + kSlack; }
int64_t element_bytes(const View& v) { return v.element.getIntOrFloatBitWidth() / 8; }

class Amx {
 public:
  Amx(Emit& emit, const CpuTile& tile)
      : e(emit),
        t(tile),
        rows_(t.register_rows / kSide),
        columns_(t.register_columns / kSide),
        a_base_(e.idx(kTileWords / kSide + b_words(t))) {}

  void run();

 private:
  // A tile in memory. `pitch`: bytes from one line to the next.
  struct Place {
    Value memory, at, pitch;
  };
  Value tile(int64_t number) {
    return LLVM::ConstantOp::create(e.b, e.loc, e.b.getI8Type(), e.b.getI8IntegerAttr(number));
  }
  void call(const char* name, ValueRange operands) {
    LLVM::CallIntrinsicOp::create(e.b, e.loc, e.b.getStringAttr(name), operands);
  }
  void move(const char* name, int64_t number, const Place& p) {
    Value pitch = arith::IndexCastOp::create(e.b, e.loc, e.b.getI64Type(), p.pitch);
    call(name, {tile(number), pointer_to(e, p.memory, p.at), pitch});
  }
  void load(int64_t number, const Place& p) { move("llvm.x86.tileloadd64", number, p); }
  void store(int64_t number, const Place& p) { move("llvm.x86.tilestored64", number, p); }
  void configure();
  void pack_b(Value k0, Value depth);
  void copy_a(Value i, Value k0, Value depth);
  void fetch(Value i, Value j, Value k0, Value step);
  void multiply(Value i, Value at_row, Value j, Value k0, Value depth, bool in_place);

  int64_t sum(int64_t r, int64_t c) const { return r * columns_ + c; }
  int64_t of_a(int64_t r) const { return rows_ * columns_ + r; }
  // The remaining registers, in turn.
  int64_t of_b(int64_t c) const {
    const int64_t first = rows_ * columns_ + rows_;
    return first + c % std::min(columns_, kRegisters - first);
  }
  Place sums_at(Value at_row, Value j, int64_t r, int64_t c) {
    Value at = e.add(e.mul(e.add(at_row, r * kSide), t.ld), e.add(j, c * kSide));
    return {t.accumulators, at, e.idx(t.ld * 4)};
  }
  Place a_at(Value i, Value k0, Value step, int64_t r, bool in_place) {
    if (!in_place) {
      Value at = e.add(e.add(a_base_, r * kSide * a_pitch(t)), e.mul(step, kSide));
      return {t.packing, at, e.idx(a_pitch(t) * 4)};
    }
    Value line = e.add(t.a.offset, e.mul(e.add(i, r * kSide), t.a.row_stride));
    return {t.a.memory, e.add(line, e.add(k0, e.mul(step, t.words.width()))),
            e.mul(t.a.row_stride, element_bytes(t.a))};
  }
  Place b_at(Value j, Value k0, Value step, int64_t c) {
    if (!t.packed_word) {
      Value panel = e.mul(e.add(j, c * kSide), depth_words(t));
      return {t.packing, e.add(e.add(panel, kTileWords / kSide), e.mul(step, kTileWords)), e.idx(kLineBytes)};
    }
    // Columns past the last panel read it again.
    Value last = e.mul(e.div(e.sub(t.columns, e.idx(1)), e.idx(kPackedColumns)), kPackedColumns);
    Value column = e.min(e.add(j, c * kSide), last);
    Value k = e.add(k0, e.mul(step, t.words.width()));
    Value at = e.add(e.mul(column, t.packed_depth), e.mul(k, kPackedColumns));
    return {t.b.memory, e.add(t.b.offset, at), e.idx(kLineBytes)};
  }

  Emit& e;
  const CpuTile& t;
  const int64_t rows_, columns_;  // of the register tile, in AMX tiles
  Value a_base_;
};

// Every register is a whole tile: palette 1, 64 bytes by 16 lines (Intel SDM, LDTILECFG).
void Amx::configure() {
  constexpr int32_t kBytesOfTwo = 0x00400040, kLinesOfFour = 0x10101010;
  const int32_t words[kSide] = {1, 0, 0, 0, kBytesOfTwo,  kBytesOfTwo,  kBytesOfTwo, kBytesOfTwo,
                                0, 0, 0, 0, kLinesOfFour, kLinesOfFour, 0,           0};
  VectorType type = e.vec(kSide, e.b.getI32Type());
  Value config =
      arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(type, llvm::ArrayRef<int32_t>(words)));
  e.store_vector(t.words.to_scratch(config), t.packing, e.idx(0));
  call("llvm.x86.ldtilecfg", {pointer_to(e, t.packing, e.idx(0))});
}

void Amx::pack_b(Value k0, Value depth) {
  const bool ragged = !Emit::known(t.depth) || *Emit::known(t.depth) % t.words.width() != 0;
  Value steps = e.ceil_div(depth, e.idx(t.words.width()));
  e.loop(e.idx(0), t.columns, kSide, [&](Value j) {
    Value left = e.sub(t.columns, j), base = e.add(e.mul(j, depth_words(t)), kTileWords / kSide);
    if (t.b_k_contiguous)
      return pack_transposed(e, {t.words, t.b, j, left, k0, depth, ragged, false}, kSide, kSide, t.packing,
                             base);
    Value words = e.ceil_div(depth, e.idx(t.words.per_lane()));
    if (ragged)
      e.loop(words, e.mul(steps, kSide), 1, [&](Value word) {
        e.store_vector(t.words.to_scratch(t.words.zero_words()), t.packing, e.add(base, e.mul(word, kSide)));
      });
    pack_across(e, {t.words, t.b, k0, depth, j, e.min(left, e.idx(kSide)), true, false}, depth, kSide,
                t.packing, base, /*fetches=*/false);
  });
}

void Amx::copy_a(Value i, Value k0, Value depth) {
  const bool ragged = !Emit::known(t.depth) || *Emit::known(t.depth) % t.words.width() != 0;
  Value left = e.sub(t.rows, i);
  if (t.a_k_contiguous)
    pack_copied(e, {t.words, t.a, i, left, k0, depth, ragged, false}, t.register_rows, a_pitch(t), t.packing,
                a_base_);
  else
    pack_a_transposed(e, t, i, e.min(left, e.idx(t.register_rows)), k0, depth, a_pitch(t), a_base_);
}

// Each pass over a panel of rows prefetches its share of the next panel: one line of each of its rows per
// step.
void Amx::fetch(Value i, Value j, Value k0, Value step) {
  if (t.fetch == CpuFetch::kNone) return;
  const int64_t passes = ceil_div(t.tile_columns, t.register_columns),
                part = ceil_div(t.register_rows, passes);
  Value k = e.add(k0, e.mul(step, t.words.width()));
  for (int64_t r = 0; r < part; ++r) {
    Value row = e.add(e.mul(e.div(j, e.idx(t.register_columns)), part), r);
    row = e.min(e.add(e.add(i, t.register_rows), row), e.sub(t.rows, e.idx(1)));
    e.prefetch(t.a.memory, e.add(t.a.offset, e.add(e.mul(row, t.a.row_stride), k)), kIntoL2);
  }
}

void Amx::multiply(Value i, Value at_row, Value j, Value k0, Value depth, bool in_place) {
  const auto every_sum = [&](const std::function<void(int64_t, int64_t)>& body) {
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) body(r, c);
  };
  const auto zero = [&] {
    every_sum([&](int64_t r, int64_t c) { call("llvm.x86.tilezero", {tile(sum(r, c))}); });
    return Values{};
  };
  const auto go_on = [&] {
    every_sum([&](int64_t r, int64_t c) { load(sum(r, c), sums_at(at_row, j, r, c)); });
    return Values{};
  };
  e.choose(e.equal(k0, e.idx(0)), {}, zero, go_on);
  const char* product = t.words.per_lane() == 4 ? "llvm.x86.tdpbssd" : "llvm.x86.tdpbf16ps";
  e.loop(e.idx(0), e.ceil_div(depth, e.idx(t.words.width())), 1, [&](Value step) {
    fetch(i, j, k0, step);
    for (int64_t r = 0; r < rows_; ++r) load(of_a(r), a_at(i, k0, step, r, in_place));
    for (int64_t c = 0; c < columns_; ++c) {
      move("llvm.x86.tileloaddt164", of_b(c), b_at(j, k0, step, c));
      for (int64_t r = 0; r < rows_; ++r) call(product, {tile(sum(r, c)), tile(of_a(r)), tile(of_b(c))});
    }
  });
  every_sum([&](int64_t r, int64_t c) { store(sum(r, c), sums_at(at_row, j, r, c)); });
}

void Amx::run() {
  const int64_t mr = t.register_rows, nr = t.register_columns;
  configure();
  e.loop(e.idx(0), t.depth, t.tile_k, [&](Value k0) {
    Value depth = e.min(e.idx(t.tile_k), e.sub(t.depth, k0));
    if (!t.packed_word) pack_b(k0, depth);
    const auto pass = [&](Value i, Value at_row, bool in_place) {
      if (!in_place) copy_a(i, k0, depth);
      e.loop(e.idx(0), t.columns, nr, [&](Value j) { multiply(i, at_row, j, k0, depth, in_place); });
    };
    // Tile loads would read past the last row, so an incomplete panel is copied.
    const auto rows = [&](Value i, Value at_row) {
      if (!t.a_in_place) return pass(i, at_row, false);
      e.choose(
          e.less(t.rows, e.add(i, mr)), {}, [&] { return pass(i, at_row, false), Values{}; },
          [&] { return pass(i, at_row, true), Values{}; });
    };
    if (t.piece)
      rows_in_pieces(e, t, t.is_one_block() ? Value() : e.less(t.depth, e.add(k0, t.tile_k + 1)), rows);
    else
      e.loop(e.idx(0), t.rows, mr, [&](Value i) { rows(i, i); });
  });
  call("llvm.x86.tilerelease", {});
}

}  // namespace

int64_t amx_packing_elements(const CpuTile& t) {
  return kTileWords / kSide + b_words(t) + t.register_rows * a_pitch(t) + kSide;
}

std::string amx_refusal(const CpuTile& t) {
  const int64_t mr = t.register_rows, nr = t.register_columns, rows = mr / kSide, columns = nr / kSide;
  if (mr % kSide || nr % kSide || rows * columns + rows + 1 > kRegisters)
    return absl::StrCat("register tile ", mr, " x ", nr, " must be whole AMX tiles of ", kSide, " x ", kSide,
                        " that fit ", kRegisters, " tile registers");
  if (t.words.per_lane() == 1 || t.lanes != kSide) return "AMX needs bf16 pairs or bytes, and 16 lanes";
  if (t.tile_k <= 0 || t.tile_k % t.words.width() != 0)
    return "tile_k is not a positive multiple of a tile's elements";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNone) return "prefetch must be 1 or 5";
  return "";
}

void emit_amx(Emit& e, const CpuTile& t) { Amx(e, t).run(); }

}  // namespace lathe::emit
