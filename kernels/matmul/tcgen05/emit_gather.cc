// Gathers the scales of A and B from any layout into tiles of 128 lines by 4 blocks in shared memory: line l has 4
// bytes at l % 32 * 16 + l / 32 * 4. So a lane has four lines of a tile, 32 apart, whose words are adjacent.
#include <array>

#include "kernels/matmul/emit_rows.h"
#include "kernels/matmul/tcgen05/emit.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kLinesOfLane = 4, kLanes = 32;

Value select(Emit& e, Value condition, Value x, Value y) {
  return arith::SelectOp::create(e.b, e.loc, condition, x, y);
}
Value load(Emit& e, Value pointer, Type type) {
  return LLVM::LoadOp::create(e.b, e.loc, type, pointer, type.getIntOrFloatBitWidth() / 8);
}

// A word of four times the byte. It may wrap around, unlike Emit::mul.
Value four_times(Emit& e, Value byte) {
  Value word = arith::ExtUIOp::create(e.b, e.loc, e.b.getI32Type(), byte);
  return arith::MulIOp::create(e.b, e.loc, word, e.i32(0x01010101));
}

}  // namespace

// Lines beyond the end are those of the last one.
Tcgen05Kernel::Lines Tcgen05Kernel::lines_of(unsigned operand, int64_t of_lines) {
  Value last = e_.sub(operand == 0 ? program_.rows : program_.columns, e_.idx(1)), lane = e_.to_index(lane_);
  Lines lines;
  for (int64_t i = 0; i < kLinesOfLane; ++i) {
    Value line = e_.add(lane, of_lines * Tcgen05Shape::kTileLines + i * kLanes);
    lines[size_t(i)] = places_[operand].of_line(e_, e_.min(line, last));
  }
  return lines;
}

// Whether the 4 scales of a line's tile are one aligned word in both operands.
Value Tcgen05Kernel::has_whole_words() {
  Type i64 = e_.b.getI64Type();
  Value all, adjacent;
  for (const ScalePlaces& s : places_) {
    Value bits = LLVM::PtrToIntOp::create(e_.b, e_.loc, i64, pointer_to(e_, s.memory, e_.idx(0)));
    // Listed rows are in any matrix of A.
    Value matrix = s.list ? step_.arguments().get("scale_a_matrix") : s.matrix;
    for (Value distance : {matrix, s.line128, s.line32, s.line, s.block16, s.block4})
      bits =
          arith::OrIOp::create(e_.b, e_.loc, bits, arith::IndexCastOp::create(e_.b, e_.loc, i64, distance));
    Value next = e_.equal(s.block, e_.idx(1));
    all = all ? Value(arith::OrIOp::create(e_.b, e_.loc, all, bits)) : bits;
    adjacent = adjacent ? Value(arith::AndIOp::create(e_.b, e_.loc, adjacent, next)) : next;
  }
  Value rest = arith::AndIOp::create(e_.b, e_.loc, all, e_.constant(i64, 3));
  return arith::AndIOp::create(e_.b, e_.loc, adjacent, e_.equal(rest, e_.constant(i64, 0)));
}

void Tcgen05Kernel::gather() {
  std::vector<Lines> lines = {lines_of(0, 0)};
  for (int64_t i = 0; i < shape_.tiles_of_n(); ++i) lines.push_back(lines_of(1, i));
  const auto bytes = [&] { return gather_bytes(lines), Values{}; };
  // Without whole groups of four at the end of K.
  if (program_.k % (shape_.scaled() * Tcgen05Shape::kTileScales) != 0) return gather_bytes(lines);
  e_.choose(
      has_whole_words(), {}, [&] { return gather_words(lines, e_.b.getI32Type()), Values{}; },
      [&] {
        if (!shape_.may_share_scales()) return bytes();
        Value shared = arith::AndIOp::create(e_.b, e_.loc, e_.equal(places_[0].block, e_.idx(0)),
                                             e_.equal(places_[1].block, e_.idx(0)));
        return e_.choose(
            shared, {}, [&] { return gather_words(lines, e_.b.getI8Type()), Values{}; }, bytes);
      });
}

// A warp that gathers no scales begins at the end.
Value Tcgen05Kernel::first_block() {
  return select(e_, e_.less(warp_, e_.i32(shape_.gathering_warps())), warp_, count_);
}

// The 4 scales of a line's tile come from one word, or if they are one scale, from a byte. The loads are issued before
// the stage is free.
void Tcgen05Kernel::gather_words(const std::vector<Lines>& lines, Type stored) {
  Value zero = e_.i32(0);
  e_.loop(first_block(), count_, shape_.gathering_warps(), [&](Value block) {
    Value k0 = e_.mul(e_.to_index(block), shape_.tile_k());
    std::vector<Values> tiles;
    for_each_tile([&](unsigned operand, int64_t of_k, int64_t of_lines, int64_t) {
      Value k = e_.add(k0, of_k * Tcgen05Shape::kTileScales * shape_.scaled());
      Value exists = e_.less(k, program_.depth);
      k = select(e_, exists, k, e_.idx(0));
      Values words;
      for (Value line : lines[operand + size_t(of_lines)]) {
        Value word = load(e_, places_[operand].at(e_, blocks(operand), line, k), stored);
        if (stored.isInteger(8)) word = four_times(e_, word);
        words.push_back(select(e_, exists, word, zero));
      }
      tiles.push_back(words);
    });
    const Slot s = slot_of(block);
    wait_until_empty(s);
    gather_elements(s, k0);
    Value to = e_.add(e_.add(shared_, shape_.scales_at()),
                      e_.add(e_.mul(s.stage, shape_.scale_bytes()), e_.mul(lane_, 4 * kLinesOfLane)));
    for (size_t number = 0; number < tiles.size(); ++number)
      store_shared(e_, to, int64_t(number) * Tcgen05Shape::kTileBytes, tiles[number]);
    publish(s);
  });
}

// For scales that are not adjacent or not aligned. Scales beyond K become 0: their elements are 0, and a NaN must not
// meet them.
void Tcgen05Kernel::gather_bytes(const std::vector<Lines>& lines) {
  e_.loop(first_block(), count_, shape_.gathering_warps(), [&](Value block) {
    Value k0 = e_.mul(e_.to_index(block), shape_.tile_k());
    const Slot s = slot_of(block);
    wait_until_empty(s);
    gather_elements(s, k0);
    Value to = e_.add(e_.add(shared_, shape_.scales_at()),
                      e_.add(e_.mul(s.stage, shape_.scale_bytes()), e_.mul(lane_, 4 * kLinesOfLane)));
    for (unsigned operand = 0; operand < 2; ++operand) {
      const int64_t of_lines = operand == 0 ? 1 : shape_.tiles_of_n();
      Value first = e_.add(to, operand == 0 ? 0 : shape_.tiles_of_k() * Tcgen05Shape::kTileBytes);
      e_.loop(e_.i32(0), e_.i32(shape_.tiles_of_k()), 1, [&](Value of_k) {
        Value k = e_.add(k0, e_.mul(e_.to_index(of_k), Tcgen05Shape::kTileScales * shape_.scaled()));
        Value tile = e_.add(first, e_.mul(of_k, of_lines * Tcgen05Shape::kTileBytes));
        for (int64_t i = 0; i < of_lines; ++i) {
          Values words;
          for (Value line : lines[operand + size_t(i)]) words.push_back(bytes_as_word(operand, line, k));
          store_shared(e_, tile, i * Tcgen05Shape::kTileBytes, words);
        }
      });
    }
    publish(s);
  });
}

Value Tcgen05Kernel::bytes_as_word(unsigned operand, Value line, Value k) {
  Type i32 = e_.b.getI32Type(), i8 = e_.b.getI8Type();
  Value word = e_.i32(0);
  for (int64_t i = 0; i < Tcgen05Shape::kTileScales; ++i) {
    Value at = e_.add(k, i * shape_.scaled()), exists = e_.less(at, program_.depth);
    at = select(e_, exists, at, e_.idx(0));
    Value byte = arith::ExtUIOp::create(e_.b, e_.loc, i32,
                                        load(e_, places_[operand].at(e_, blocks(operand), line, at), i8));
    byte = arith::ShLIOp::create(e_.b, e_.loc, select(e_, exists, byte, e_.i32(0)), e_.i32(8 * i));
    word = arith::OrIOp::create(e_.b, e_.loc, word, byte);
  }
  return word;
}

// Starts to copy the elements that TMA does not, from `k` on.
void Tcgen05Kernel::gather_elements(Slot s, Value k) {
  linalg::LinalgOp contraction = program_.contraction;
  Value stage = e_.add(shared_, e_.mul(s.stage, shape_.stage_bytes()));
  for (unsigned i = 0; i < 2; ++i) {
    if (copied_by_tma(i)) continue;
    SharedRows rows = {Tcgen05Shape::kTileM, false, {}};
    if (i == 1) rows = {shape_.tile_n, true, e_.sub(program_.columns, e_.idx(1))};
    copy_rows(e_, program_.views.find(contraction.getDpsInputs()[i])->second, rows, lane_, k, program_.depth,
              e_.add(stage, i == 0 ? 0 : shape_.a_bytes()));
  }
}

// Makes the warp's stores and copies visible to the tensor core and to the thread that multiplies.
void Tcgen05Kernel::publish(Slot s) {
  if (shape_.copies_elements())
    finish_rows(e_);
  else
    fence_copies(e_);
  sync_warp(e_);
  e_.when(e_.equal(lane_, e_.i32(0)), [&] { arrive(e_, full(s.stage)); });
}

}  // namespace lathe::emit
