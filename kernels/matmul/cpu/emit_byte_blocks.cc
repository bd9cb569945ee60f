#include "kernels/matmul/cpu/emit_byte_blocks.h"

#include <algorithm>
#include <limits>

#include "core/packed.h"

// A format of 4 to 6 bits or with a table of 16 values needs nothing here, unless its scales are stored in a new way: a
// case in scale() then.
namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kZmmLanes = 16, kYmmLanes = 8;

// Without VNNI two products of a byte and one of A (at most 127) must not pass 2^15.
constexpr int64_t kMostWithoutVnni = std::numeric_limits<int16_t>::max() / (2 * 127);

}  // namespace

ByteFormat::ByteFormat(DType t, bool vnni)
    : layout(block_layout(t)),
      block(block_elements(t)),
      bytes(static_cast<int64_t>(size_of(t))),
      scaled(layout.scales == BlockScales::kBytes ? 16 : 32),
      has_minimum(layout.scales == BlockScales::kF16AndMin || layout.scales == BlockScales::kSixBits) {
  int64_t lowest = -layout.zero, highest = (int64_t{16} << layout.upper_bits) - 1 - layout.zero;
  if (layout.group == 0) lowest = -128, highest = 127;
  if (layout.table) {
    lowest = *std::min_element(layout.table, layout.table + 16);
    highest = *std::max_element(layout.table, layout.table + 16);
  }
  is_signed = !vnni && highest - lowest > kMostWithoutVnni;
  offset = is_signed ? 0 : -lowest;
  largest = is_signed ? std::max(-lowest, highest) : highest - lowest;
}

// The vectors of four words, concatenated.
Value ByteBlock::joined(Values parts) {
  while (parts.size() > 1) {
    Values pairs;
    for (size_t i = 0; i + 1 < parts.size(); i += 2) {
      const int64_t words = cast<VectorType>(parts[i].getType()).getNumElements();
      SmallVector<int64_t> mask;
      for (int64_t l = 0; l < 2 * words; ++l) mask.push_back(l);
      pairs.push_back(shuffle(parts[i], parts[i + 1], mask));
    }
    parts = pairs;
  }
  return parts[0];
}

// Interleaves, within each 128 bits, the pieces of `bits` bits of the lower or upper halves of x and y.
Value ByteBlock::unpacked(Value x, Value y, int64_t bits, bool upper) {
  const int64_t piece = bits / 32, in_quarter = 4 / piece;
  SmallVector<int64_t> mask;
  for (int64_t quarter = 0; quarter < lanes; quarter += 4)
    for (int64_t p = 0; p < in_quarter / 2; ++p)
      for (int64_t from : {int64_t{0}, lanes})
        for (int64_t l = 0; l < piece; ++l)
          mask.push_back(from + quarter + (p + (upper ? in_quarter / 2 : 0)) * piece + l);
  return shuffle(x, y, mask);
}

Value column_byte(Emit& e, const CpuTile& t, Value j) {
  Value column = e.min(j, e.sub(t.columns, e.idx(1)));
  return CpuBlocks(e, t.lanes, t.b).byte_of(e.add(t.b.offset, e.mul(column, t.b.row_stride)));
}

BlockColumns::BlockColumns(Emit& e, const CpuTile& t, Value j) {
  if (!t.packed_word) {
    for (int64_t c = 0; c < t.lanes; ++c) bytes.push_back(column_byte(e, t, e.add(j, c)));
    return;
  }
  Value panel = e.div(e.min(j, e.sub(t.columns, e.idx(1))), e.idx(kPackedColumns));
  bytes = {column_byte(e, t, e.mul(panel, kPackedColumns))};
  lane = t.lanes == kPackedColumns ? e.idx(0) : e.rem(j, e.idx(kPackedColumns));
}

Value BlockColumns::distance(Emit& e, const ByteFormat& f, Value block) const {
  return e.mul(block, lane ? kPackedColumns * f.bytes : f.bytes);
}

void prefetch_group(Emit& e, const CpuTile& t, const ByteFormat& f, Value j, Value group) {
  const int64_t share = t.lanes * f.bytes / f.groups();
  Value from;
  if (t.packed_word) {
    const BlockColumns columns(e, t, j);
    Value before = e.mul(columns.lane, f.bytes / f.groups());
    from = e.add(e.add(columns.bytes[0], before), e.mul(group, kPackedColumns * f.bytes / f.groups()));
  } else {
    Value turn = e.rem(group, e.idx(t.lanes)), turns = e.div(e.sub(group, turn), e.idx(t.lanes));
    from = e.add(column_byte(e, t, e.add(j, turn)), e.mul(turns, share));
  }
  for (int64_t line = 0; line < share; line += 64)
    e.prefetch(t.b.memory, e.add(from, line), t.fetch == CpuFetch::kNear ? kIntoL1 : kIntoL2);
}

bool ByteBlock::is_apart(int64_t at) const {
  const int64_t before = layout.first() % 4, after = f.bytes - (f.bytes - before) % 4;
  return columns.lane && (at < before || at >= after);
}

// The piece of each column that begins at byte `at` of the block, and `before` bytes after it. Without prefetches the
// fence keeps the loads in the order of addresses, which the hardware prefetches.
Value ByteBlock::packed(int64_t at, Type element, Value before) const {
  const int64_t size = element.getIntOrFloatBitWidth() / 8;
  Value from = e.add(e.add(columns.bytes[0], byte),
                     e.add(e.mul(before, kPackedColumns), packed_place(layout.dtype, at) * kPackedColumns));
  Value raw_bytes = e.load_vector(t.b.memory, e.add(from, e.mul(columns.lane, size)), lanes * size);
  if (t.fetch == CpuFetch::kNone)
    LLVM::FenceOp::create(e.b, e.loc, LLVM::AtomicOrdering::acq_rel, "singlethread");
  return as(e.vec(lanes, element), raw_bytes);
}

int64_t ByteBlock::run_step(Base base) const {
  const int64_t step = base == kCodes ? 16 : 8;  // upper bits: of formats that have two
  if (!columns.lane) return step;
  const int64_t first = base == kCodes ? layout.first() : layout.upper_first, run = f.shared_groups();
  return (packed_place(layout.dtype, first + step * run) - packed_place(layout.dtype, first)) / run;
}

void ByteBlock::read_header() {
  block_scale();
  if (f.has_minimum) half_at(2);
  if (layout.scales == BlockScales::kBytes) raw(192);
  if (layout.upper_bits && layout.planes == 0) block_bits();
  for (int64_t w = 0; keeps_upper() && w < ByteFormat::kWords; w += 4)
    raw(layout.upper_first + 4 * w, kUpper);
}

const Values& ByteBlock::raw(int64_t at, Base base) {
  Values& turned = raws[{base, at}];
  if (!turned.empty()) return turned;
  Value inside = base == kBlock ? e.idx(0) : e.mul(run, run_step(base));
  if (columns.lane) {
    for (int64_t i = 0; i < 4; ++i) turned.push_back(packed(at + 4 * i, e.b.getI32Type(), inside));
    return turned;
  }
  Value first = e.add(byte, inside);
  Values z;
  for (int64_t i = 0; i < 4; ++i) {
    Values parts;
    for (int64_t quarter = 0; quarter < lanes / 4; ++quarter) {
      Value from = e.add(e.add(columns.bytes[4 * quarter + i], first), at);
      parts.push_back(as(e.vec(4, e.b.getI32Type()), e.load_vector(t.b.memory, from, 16)));
    }
    z.push_back(joined(parts));
  }
  for (bool upper : {false, true}) {
    Value x = unpacked(z[0], z[1], 32, upper), y = unpacked(z[2], z[3], 32, upper);
    for (bool half : {false, true}) turned.push_back(unpacked(x, y, 64, half));
  }
  return turned;
}

// The f16 from bit `at` of each word on, as f32.
Value ByteBlock::half(Value words, int64_t at) {
  Value bits = arith::TruncIOp::create(e.b, e.loc, e.vec(lanes, e.b.getI16Type()), down(words, at));
  return e.to_f32(as(e.vec(lanes, e.b.getF16Type()), bits));
}

// The f16 from byte `at` of the block on, as f32.
Value ByteBlock::half_at(int64_t at) {
  if (is_apart(at)) return e.to_f32(packed(at, e.b.getF16Type(), e.idx(0)));
  const int64_t from = at < 16 ? 0 : f.bytes - 16;
  return half(raw(from)[(at - from) / 4], (at - from) % 4 * 8);
}

// --- words

Values ByteBlock::words(int64_t g, int64_t part) {
  const int64_t inside = g * ByteFormat::kGroup, count = ByteFormat::kWords / f.scales_of_group();
  Values words;
  for (int64_t w = part * count; w < (part + 1) * count; ++w) {
    if (layout.group == 0) {
      Value x = raw(layout.first() + inside + w / 4 * 16, kCodes)[w % 4];
      words.push_back(f.is_signed ? x : flipped(x, INT32_C(-0x7F7F7F80)));
      continue;
    }
    const int64_t half = layout.group / 2, at = inside % layout.group + w * 4;
    Value x = raw(layout.first() + inside / layout.group * half + at % half / 16 * 16, kCodes)[at % 16 / 4];
    x = masked(down(x, at / half * 4), 0x0f0f0f0f);
    if (layout.upper_bits) x = either(x, upper_bits(g, w));
    words.push_back(layout.table ? looked_up(x) : x);
  }
  return words;
}

// The upper bits of a format with one word of them.
Value ByteBlock::block_bits() {
  if (bits_of_block) return bits_of_block;
  // They begin within a word if a single f16 comes before them.
  const int64_t word = layout.upper_first / 4, in = layout.upper_first % 4 * 8;
  const Values& header = raw(columns.lane ? layout.upper_first : 0);
  return bits_of_block = columns.lane ? header[0]
                         : in == 0    ? header[word]
                                      : either(down(header[word], in), up(header[word + 1], 32 - in));
}

// The upper bits of word w, in place above the lower four of each byte.
Value ByteBlock::upper_bits(int64_t g, int64_t w) {
  if (layout.planes == 0) return bit_of_each(block_bits(), w);
  const int64_t mask = layout.upper_bits == 1 ? 0x10101010 : 0x30303030;
  if (kept && keeps_upper()) {
    Value x = as(i32s(), e.load_vector(t.packing, e.add(kept, w * lanes), lanes));
    Value shift = e.broadcast(e.to_i32(e.mul(e.add(run, g), layout.upper_bits)), lanes);
    return masked(up(arith::ShRUIOp::create(e.b, e.loc, x, shift), 4), mask);
  }
  const int64_t inside = g * ByteFormat::kGroup, shift = layout.upper_bits * (inside % layout.planes / 32);
  Value x = raw(layout.upper_first + inside / layout.planes * 32 + w / 4 * 16, kUpper)[w % 4];
  x = shift < 4 ? up(x, 4 - shift) : down(x, shift - 4);
  return masked(x, mask);
}

int64_t ByteBlock::kept_vectors(const ByteFormat& f) {
  return ByteFormat::kWords + f.groups() * f.scales_of_group();
}

// The words of upper bits that all groups share, then the scales.
void ByteBlock::keep(Value at) {
  const auto store = [&](Value x, int64_t i) {
    e.store_vector(as(f32s(), x), t.packing, e.add(at, i * lanes));
  };
  for (int64_t w = 0; keeps_upper() && w < ByteFormat::kWords; ++w)
    store(raw(layout.upper_first + w / 4 * 16)[w % 4], w);
  const int64_t parts = f.scales_of_group();
  for (int64_t i = 0; i < f.groups() * parts; ++i) store(scale(i / parts, i % parts), ByteFormat::kWords + i);
}

ByteBlock ByteBlock::in_loop(Value run, Value at) const {
  ByteBlock part(e, t, f, columns, block);
  part.run = run;
  part.kept = at;
  return part;
}

// Bits 4 w to 4 w + 3 of each column's word, each as bit 4 of a byte.
Value ByteBlock::bit_of_each(Value bits, int64_t w) {
  if (lanes == kZmmLanes) {  // the permutation looks up the bytes of 4 bits, and ignores the bits above
    SmallVector<int32_t> bytes;
    for (int32_t code = 0; code < 16; ++code)
      bytes.push_back((code & 1) << 4 | (code & 2) << 11 | (code & 4) << 18 | (code & 8) << 25);
    Value table =
        arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i32s(), llvm::ArrayRef(bytes)));
    return call("llvm.x86.avx512.permvar.si.512", i32s(), {table, down(bits, 4 * w)});
  }
  // The byte that holds the four bits in all bytes of the word, then each byte's own bit.
  Value bytes = as(i8s(), bits);
  SmallVector<int64_t> mask;
  SmallVector<int8_t> own;
  for (int64_t l = 0; l < lanes; ++l)
    for (int64_t q = 0; q < 4; ++q) {
      mask.push_back(4 * l + w / 2);
      own.push_back(static_cast<int8_t>(1 << (w % 2 * 4 + q)));
    }
  Value bit = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i8s(), llvm::ArrayRef(own)));
  Value set = arith::AndIOp::create(e.b, e.loc, shuffle(bytes, bytes, mask), bit);
  set = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq, set, bit);
  return masked(as(i32s(), arith::ExtSIOp::create(e.b, e.loc, i8s(), set)), 0x10101010);
}

Value ByteBlock::looked_up(Value words) {
  SmallVector<int8_t> values;
  for (int64_t l = 0; l < 4 * lanes; ++l)
    values.push_back(static_cast<int8_t>(layout.table[l % 16] + f.offset));
  Value table = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(i8s(), llvm::ArrayRef(values)));
  const char* name = lanes == kZmmLanes   ? "llvm.x86.avx512.pshuf.b.512"
                     : lanes == kYmmLanes ? "llvm.x86.avx2.pshuf.b"
                                          : "llvm.aarch64.neon.tbl1.v16i8";
  return as(i32s(), call(name, i8s(), {table, as(i8s(), words)}));
}

// --- scales

// Groups 0 to 3 (`quarter` 0) or 4 to 7 of formats with 6 bits for each group's scale and minimum, a byte each.
Value ByteBlock::six_bits(bool minima, int64_t quarter) {
  Value& six = sixes[2 * quarter + minima];
  if (six) return six;
  const Values& header = raw(0);
  Value low = header[minima ? 2 : 1];
  if (quarter == 0) return six = masked(low, 0x3f3f3f3f);
  Value four = masked(down(header[3], minima ? 4 : 0), 0x0f0f0f0f);
  return six = either(four, masked(down(low, 2), 0x30303030));
}

Value ByteBlock::scale(int64_t g, int64_t part) {
  if (kept) {
    Value at = e.add(e.mul(e.add(run, g), f.scales_of_group()), ByteFormat::kWords + part);
    return e.load_vector(t.packing, e.add(kept, e.mul(at, lanes)), lanes);
  }
  switch (layout.scales) {
    case BlockScales::kF16:
    case BlockScales::kF16AndMin:
    case BlockScales::kPower: return block_scale();
    default: return mul(to_f32(group_scale(g, part)), block_scale());
  }
}

Value ByteBlock::block_scale() {
  if (scale_of_block) return scale_of_block;
  if (layout.scales != BlockScales::kPower)
    return scale_of_block = half_at(layout.scales == BlockScales::kBytes ? 208 : 0);
  Value power = is_apart(0)
                    ? Value(arith::ExtUIOp::create(e.b, e.loc, i32s(), packed(0, e.b.getI8Type(), e.idx(0))))
                    : masked(raw(0)[0], 0xff);
  // The bits of half of the power. Halves of the two smallest ones are subnormal; the other bits are then smaller.
  Value small = up(power, 22), normal = sub(add(small, small), all(0x00800000));
  return scale_of_block = as(f32s(), max(max(normal, small), all(0x00200000)));
}

Value ByteBlock::group_scale(int64_t g, int64_t part) {
  switch (layout.scales) {
    case BlockScales::kSixBits: return masked(down(six_bits(false, g / 4), g % 4 * 8), 0xff);
    case BlockScales::kBytes: {
      const int64_t at = 2 * g + part;
      return down_signed(up(raw(192)[at / 4], 24 - at % 4 * 8), 24);
    }
    case BlockScales::kSixBitsOf32: {
      Value low = masked(down(raw(0)[1], 4 * g), 15);
      const int64_t shift = 16 + 2 * g;  // of two bits that become bits 4 and 5
      Value six = either(low, masked(down(raw(0)[0], shift - 4), 0x30));
      return sub(six, all(32));
    }
    default: llvm::report_fatal_error("a block format without scales of groups");
  }
}

Value ByteBlock::minimum() { return half_at(2); }
Value ByteBlock::minimum_scale() { return arith::NegFOp::create(e.b, e.loc, half_at(2)); }
Value ByteBlock::minimum_pair(int64_t pair) {
  Value minima = down(six_bits(true, pair / 2), pair % 2 * 16);
  return either(masked(minima, 0xff), up(masked(minima, 0xff00), 8));
}

}  // namespace lathe::emit
