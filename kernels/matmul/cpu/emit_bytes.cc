// "bytes": A is rounded to bytes, with one scale per 32 elements of a row, and multiplied with weights of 4
// bits in blocks of 32 (q4_0), by AVX512-VNNI. The lanes of a vector are 16 columns of D: their blocks are
// transposed in registers, so that a word holds four elements of K of one column, and are multiplied with a
// broadcast word of each row. The products of a block are summed exactly, then scaled in f32.
//
// With lanes along K instead, a conversion, a multiplication and an FMA would be needed for every two
// products; here they are needed for every eight.
#include "base/dtype.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/cpu/emit_blocks.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kLanes = 16;
constexpr int64_t kElements = 32, kBlockBytes = 18;  // of q4_0
constexpr int64_t kNumbers = 2;                      // the first byte of the numbers
constexpr int64_t kWords = kElements / 4;            // words of four bytes in a block
constexpr int64_t kChains = 4;
constexpr int32_t kInfinityBits = 0x7f800000, kNanBits = 0x7fc00000;
constexpr int32_t kRoundingBits = 0x4b400000;  // 1.5 * 2^23, where the spacing of floats is 1
// 2^-119: with a smaller largest magnitude the reciprocal of the scale would overflow. Such a block uses
// the scale of this magnitude; its error is at most half of 2^-126, the smallest normal number.
constexpr int32_t kLeastBits = 0x04000000;

int64_t padded_rows(const CpuTile& t) { return round_up(t.tile_rows, t.register_rows); }
int64_t most_blocks(const CpuTile& t) { return ceil_div(t.most_depth, kElements); }
// The scales, or the first sums, of a row: one per block, written 16 at a time.
int64_t scales_pitch(const CpuTile& t) { return round_up(most_blocks(t), kLanes); }
// A row of A: its bytes, scales and first sums. The padding keeps rows from starting in the same cache set.
int64_t row_pitch(const CpuTile& t) {
  return round_up(kWords * most_blocks(t) + 2 * scales_pitch(t), 16) + 16;
}

class Bytes {
 public:
  Bytes(Emit& emit, const CpuTile& tile)
      : e(emit),
        t(tile),
        rm(t.register_rows),
        blocks(e.div(t.depth, e.idx(kElements))),
        last_row(e.sub(t.rows, e.idx(1))),
        last_column(e.sub(t.columns, e.idx(1))) {}

  void run() {
    e.loop(e.idx(0), e.idx(padded_rows(t)), 1, [&](Value i) {
      Value row = e.add(t.a.offset, e.mul(e.min(i, last_row), t.a.row_stride));
      e.loop(e.idx(0), blocks, kLanes, [&](Value block) { round_blocks(i, row, block); });
    });
    e.loop(e.idx(0), t.columns, kLanes, [&](Value j) {
      Values columns;
      for (int64_t c = 0; c < kLanes; ++c) columns.push_back(column_of_b(e.add(j, c)));
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
  VectorType f32s() { return e.vec(kLanes, e.f32()); }
  VectorType i32s() { return e.vec(kLanes, e.b.getI32Type()); }
  Value words(int32_t word) {
    return arith::ConstantOp::create(e.b, e.loc, SplatElementsAttr::get(i32s(), e.b.getI32IntegerAttr(word)));
  }
  Value as(Type type, Value x) { return arith::BitcastOp::create(e.b, e.loc, type, x); }
  Value column_of_b(Value j) {
    return CpuBlocks(e, kLanes, t.b).byte_of(e.add(t.b.offset, e.mul(e.min(j, last_column), t.b.row_stride)));
  }

  // --- A in the packing memory: rows of [block][word], then [block] of scales, then [block] of first sums.
  Value row_at(Value i) { return e.mul(i, row_pitch(t)); }
  Value scale_at(Value i, Value block) { return e.add(e.add(row_at(i), kWords * most_blocks(t)), block); }
  Value first_at(Value i, Value block) { return e.add(scale_at(i, block), scales_pitch(t)); }

  // Reduces 16 vectors to one: lane l is the combination of all lanes of vector l.
  Value across(Values x, const std::function<Value(Value, Value)>& combine) {
    for (int64_t length = kLanes; length > 1; length /= 2) {
      SmallVector<int64_t> lower, upper;
      for (int64_t part = 0; part < kLanes; part += length)
        for (int64_t from : {int64_t{0}, kLanes})
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
  Value all_of_lane(Value x, int64_t lane) {
    return shuffle(x, x, SmallVector<int64_t>(static_cast<size_t>(kLanes), lane));
  }

  // Rounds 16 blocks of a row of A; past the end the last block again. A number becomes a byte when its
  // quotient by the scale is added to 1.5 * 2^23: the last bits of the sum are then the rounded quotient. A
  // block with a NaN or an infinity gets NaN as its scale.
  void round_blocks(Value i, Value row, Value block0) {
    Values starts, magnitudes;
    Value last = e.sub(blocks, e.idx(1));
    const auto half = [&](int64_t q, int64_t h) {
      return e.to_f32(e.load_vector(t.a.memory, e.add(starts[q], h * kLanes), kLanes));
    };
    for (int64_t q = 0; q < kLanes; ++q) {
      starts.push_back(e.add(row, e.mul(e.min(e.add(block0, q), last), kElements)));
      Value bits[2];
      for (int64_t h = 0; h < 2; ++h)
        bits[h] = arith::AndIOp::create(e.b, e.loc, as(i32s(), half(q, h)), words(0x7fffffff));
      magnitudes.push_back(arith::MaxSIOp::create(e.b, e.loc, bits[0], bits[1]));
    }
    // The bits of the largest magnitude; those of a NaN are above those of infinity.
    Value bits = across(magnitudes,
                        [&](Value x, Value y) -> Value { return arith::MaxSIOp::create(e.b, e.loc, x, y); });
    Value finite = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::slt, bits, words(kInfinityBits));
    Value most = as(f32s(), arith::MaxSIOp::create(e.b, e.loc, bits, words(kLeastBits)));
    Value scale = arith::MulFOp::create(e.b, e.loc, most, e.splat(f32s(), 1.0f / 127));
    scale = arith::SelectOp::create(e.b, e.loc, finite, scale, as(f32s(), words(kNanBits)));
    Value inverse = arith::DivFOp::create(e.b, e.loc, e.splat(f32s(), 127), most);
    e.store_vector(scale, t.packing, scale_at(i, block0));
    Values sums;
    for (int64_t q = 0; q < kLanes; ++q) {
      Value block = e.min(e.add(block0, q), last), to = e.add(row_at(i), e.mul(block, kWords));
      Value x[2];
      for (int64_t h = 0; h < 2; ++h) {
        x[h] = as(i32s(), e.fma(half(q, h), all_of_lane(inverse, q), as(f32s(), words(kRoundingBits))));
        Value bytes = arith::TruncIOp::create(e.b, e.loc, e.vec(kLanes, e.b.getI8Type()), x[h]);
        Value packed = vector::BitCastOp::create(e.b, e.loc, e.vec(kLanes / 4, e.f32()), bytes);
        e.store_vector(packed, t.packing, e.add(to, h * (kLanes / 4)));
      }
      sums.push_back(arith::AddIOp::create(e.b, e.loc, x[0], x[1]));
    }
    Value total =
        across(sums, [&](Value x, Value y) -> Value { return arith::AddIOp::create(e.b, e.loc, x, y); });
    total = arith::SubIOp::create(e.b, e.loc, total,
                                  words(static_cast<int32_t>(uint32_t{kRoundingBits} * uint32_t{kElements})));
    // A weight q stands for q - 8.
    Value first = arith::MulIOp::create(e.b, e.loc, total, words(-8));
    e.store_vector(as(f32s(), first), t.packing, first_at(i, block0));
  }

  // --- B: a block of 16 columns.
  Value shuffle(Value x, Value y, llvm::ArrayRef<int64_t> mask) {
    return vector::ShuffleOp::create(e.b, e.loc, x, y, mask);
  }
  // The 16 bytes of each of four columns, concatenated.
  Value joined(const Values& parts) {
    const auto join = [&](Value x, Value y) {
      const int64_t lanes = cast<VectorType>(x.getType()).getNumElements();
      SmallVector<int64_t> mask;
      for (int64_t l = 0; l < 2 * lanes; ++l) mask.push_back(l);
      return shuffle(x, y, mask);
    };
    return join(join(parts[0], parts[1]), join(parts[2], parts[3]));
  }
  // Interleaves, within each 128 bits, the pieces of `bits` bits of the lower or upper halves of x and y.
  Value unpacked(Value x, Value y, int64_t bits, bool upper) {
    const int64_t piece = bits / 32, in_quarter = 4 / piece;
    SmallVector<int64_t> mask;
    for (int64_t quarter = 0; quarter < kLanes; quarter += 4)
      for (int64_t p = 0; p < in_quarter / 2; ++p)
        for (int64_t from : {int64_t{0}, kLanes})
          for (int64_t l = 0; l < piece; ++l)
            mask.push_back(from + quarter + (p + (upper ? in_quarter / 2 : 0)) * piece + l);
    return shuffle(x, y, mask);
  }

  // The weights of the columns, transposed: word w holds elements 4 w to 4 w + 3 of the block, one column
  // per lane.
  Values numbers_of(const Values& columns, Value block_byte) {
    Values z;
    for (int64_t i = 0; i < 4; ++i) {
      Values parts;
      for (int64_t quarter = 0; quarter < 4; ++quarter) {
        Value byte = e.add(e.add(columns[4 * quarter + i], block_byte), kNumbers);
        parts.push_back(vector::BitCastOp::create(e.b, e.loc, e.vec(4, e.b.getI32Type()),
                                                  e.load_vector(t.b.memory, byte, 16)));
      }
      z.push_back(joined(parts));
    }
    Values turned;
    for (bool upper : {false, true}) {
      Value x = unpacked(z[0], z[1], 32, upper), y = unpacked(z[2], z[3], 32, upper);
      for (bool half : {false, true}) turned.push_back(unpacked(x, y, 64, half));
    }
    Values lower, upper;
    for (Value x : turned) {
      lower.push_back(arith::AndIOp::create(e.b, e.loc, x, words(0x0f0f0f0f)));
      Value high = arith::ShRUIOp::create(e.b, e.loc, x, words(4));
      upper.push_back(arith::AndIOp::create(e.b, e.loc, high, words(0x0f0f0f0f)));
    }
    lower.append(upper);
    return lower;
  }
  Value scales_of(const Values& columns, Value block_byte) {
    Value scales = e.zero(e.vec(kLanes, e.b.getF16Type()));
    for (int64_t c = 0; c < kLanes; ++c) {
      Value pointer = pointer_to(e, t.b.memory, e.add(columns[c], block_byte));
      Value scale = LLVM::LoadOp::create(e.b, e.loc, e.b.getF16Type(), pointer, /*alignment=*/1);
      scales = vector::InsertOp::create(e.b, e.loc, scale, scales, c);
    }
    return e.to_f32(scales);
  }

  // Prefetches the next 16 columns: each step one of them in turn, as many blocks of it as there are
  // columns.
  void fetch_ahead(Value j, Value block) {
    Value turn = e.rem(block, e.idx(kLanes));
    Value from = e.add(column_of_b(e.add(e.add(j, kLanes), turn)), e.mul(e.sub(block, turn), kBlockBytes));
    for (int64_t line = 0; line < kLanes * kBlockBytes; line += 64)
      e.prefetch(t.b.memory, e.add(from, line), t.fetch == CpuFetch::kNear ? kIntoL1 : kIntoL2);
  }

  // Adds the products of one K block to `sums`, of register_m rows and 16 columns.
  Values multiply(Value i, Value j, const Values& columns, Value block, Values sums) {
    Value block_byte = e.mul(block, kBlockBytes);
    fetch_ahead(j, block);
    Values numbers = numbers_of(columns, block_byte);
    Value scales = scales_of(columns, block_byte);
    Type bytes = e.vec(4 * kLanes, e.b.getI8Type());
    const auto word = [&](Value at) { return e.broadcast(e.load(t.packing, at), kLanes); };
    // A chain of eight products takes eight latencies, so several rows are computed side by side, few
    // enough that their sums stay in registers. The fences keep the order: LLVM would otherwise load the
    // scales of all rows first and spill the sums.
    const auto in_order = [&] {
      LLVM::FenceOp::create(e.b, e.loc, LLVM::AtomicOrdering::acq_rel, "singlethread");
    };
    for (int64_t r0 = 0; r0 < rm; r0 += kChains) {
      const int64_t chains = std::min(kChains, rm - r0);
      in_order();
      Values exact;
      for (int64_t r = 0; r < chains; ++r)
        exact.push_back(as(i32s(), word(first_at(e.add(i, r0 + r), block))));
      for (int64_t w = 0; w < kWords; ++w) {
        Value b = vector::BitCastOp::create(e.b, e.loc, bytes, numbers[w]);
        for (int64_t r = 0; r < chains; ++r) {
          Value at = e.add(row_at(e.add(i, r0 + r)), e.mul(block, kWords));
          Value a = vector::BitCastOp::create(e.b, e.loc, bytes, word(e.add(at, w)));
          exact[r] = LLVM::CallIntrinsicOp::create(e.b, e.loc, i32s(),
                                                   e.b.getStringAttr("llvm.x86.avx512.vpdpbusd.512"),
                                                   ValueRange{exact[r], b, a})
                         .getResult(0);
        }
      }
      in_order();
      for (int64_t r = 0; r < chains; ++r) {
        Value x = arith::SIToFPOp::create(e.b, e.loc, f32s(), exact[r]);
        Value scale = arith::MulFOp::create(e.b, e.loc, scales, word(scale_at(e.add(i, r0 + r), block)));
        sums[r0 + r] = e.fma(x, scale, sums[r0 + r]);
      }
    }
    return sums;
  }

  Emit& e;
  const CpuTile& t;
  const int64_t rm;
  Value blocks, last_row, last_column;
};

}  // namespace

int64_t bytes_packing_elements(const CpuTile& t) { return padded_rows(t) * row_pitch(t); }

std::string bytes_refusal(const CpuTile& t) {
  if (t.b.blocks != DType::kQ4_0 || !t.a_k_contiguous || t.lanes != kLanes)
    return "needs B in q4_0, a K-contiguous A and 16 lanes";
  if (t.fetch != CpuFetch::kNext && t.fetch != CpuFetch::kNear) return "prefetch must be 1 or 2";
  return "";
}

void emit_bytes(Emit& e, const CpuTile& t) { Bytes(e, t).run(); }

}  // namespace lathe::emit
