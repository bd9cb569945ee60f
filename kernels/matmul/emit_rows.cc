#include "kernels/matmul/emit_rows.h"

#include <algorithm>

#include "compiler/ptx_hopper.h"
#include "compiler/ptx_mma.h"

namespace lathe::emit {
using namespace mlir;

namespace {

constexpr int64_t kRow = 128, kChunk = 16, kChunks = kRow / kChunk;  // bytes; chunks of a row
constexpr int64_t kRowsAtOnce = 32 / kChunks;  // that a warp copies with one instruction
constexpr int64_t kUnrolled = 32;              // rows
constexpr int64_t kSwizzled = 8;               // rows after which the swizzle repeats

int64_t elements_of(const View& v, int64_t bytes) {
  if (v.blocks == DType::kNone) return bytes * 8 / v.element.getIntOrFloatBitWidth();
  return bytes * block_elements(v.blocks) / static_cast<int64_t>(size_of(v.blocks));
}

// The address of element `at` of an operand. The memory of blocks is of bytes.
Value address_of(Emit& e, const View& v, Value at) {
  if (v.blocks != DType::kNone) at = e.div(at, e.idx(elements_of(v, 1)));
  return pointer_to(e, v.memory, at);
}

}  // namespace

void copy_rows(Emit& e, const View& v, const SharedRows& rows, Value lane, Value k, Value depth,
               Value shared) {
  const int64_t piece = rows.unpacks ? kChunk / 2 : kChunk, in_piece = elements_of(v, piece);
  Value chunk = e.rem(lane, e.i32(kChunks)), first_row = e.div(lane, e.i32(kChunks));
  Value first = e.add(k, e.mul(e.to_index(chunk), in_piece));
  // Bytes of the piece before the end of K.
  Value exists = e.less(first, depth);
  Value elements = e.min(e.sub(depth, first), e.idx(in_piece));
  Value bytes = e.div(e.mul(e.to_i32(elements), piece), e.i32(in_piece));
  bytes = arith::SelectOp::create(e.b, e.loc, exists, bytes, e.i32(0));
  Value from = e.add(v.offset, arith::SelectOp::create(e.b, e.loc, exists, first, e.idx(0)));
  SmallVector<Value> places;  // of the lane's chunk in the first rows of a swizzle's period
  for (int64_t i = 0; i < kSwizzled; i += kRowsAtOnce) {
    Value row = e.add(first_row, i);
    Value swizzled = arith::XOrIOp::create(e.b, e.loc, chunk, e.rem(row, e.i32(kSwizzled)));
    places.push_back(e.add(e.add(shared, e.mul(row, kRow)), e.mul(swizzled, kChunk)));
  }
  auto shared_memory = LLVM::LLVMPointerType::get(e.b.getContext(), 3);
  const int64_t step = std::min(rows.rows, kUnrolled);
  e.loop(e.i32(0), e.i32(rows.rows), step, [&](Value row0) {
    for (int64_t i = 0; i < step; i += kRowsAtOnce) {
      Value row = e.to_index(e.add(e.add(first_row, row0), i));
      if (rows.last) row = e.min(row, rows.last);
      Value to =
          e.add(places[i / kRowsAtOnce % places.size()], e.mul(e.add(row0, i / kSwizzled * kSwizzled), kRow));
      (rows.unpacks ? copy_8_async : copy_async)(e, LLVM::IntToPtrOp::create(e.b, e.loc, shared_memory, to),
                                                 address_of(e, v, e.add(from, row_at(e, v, row))), bytes);
    }
  });
}

void finish_rows(Emit& e) {
  commit_copies(e);
  wait_copies(e, 0);
  fence_copies(e);
}

}  // namespace lathe::emit
