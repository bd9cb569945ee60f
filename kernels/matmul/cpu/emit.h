// CPU matmul kernels. A form computes one tile of products (f32, or i32 for bytes) into scratch memory of
// the worker, or hands them to a sink.
#pragma once

#include <functional>
#include <optional>

#include "compiler/dialect.h"
#include "compiler/emit.h"
#include "kernels/matmul/cpu/emit_words.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {

// Localities of a prefetch. Lines that are used a group of columns later go to L2: L1 would lose them, and
// prefetches into L1 occupy its few line fill buffers.
constexpr int kIntoL2 = 2, kIntoL1 = 3;

// Takes vectors of products from (i, j) of the tile on, `left` of them if given, and stores them to D.
struct ProductsSink {
  std::function<void(Value products, Value i, Value j, Value left)> store;
  explicit operator bool() const { return store != nullptr; }
};

// One tile's work: acc[i][j] (row-major, leading dimension `ld`, padded so that whole register tiles may be
// written) = sum over k < depth of A(i, k) B(k, j), for i < rows, j < columns. In transposed kernels A and
// B are swapped, and rows are D's columns, but not in CpuFields.
struct CpuTile : CpuFields {
  CpuTile(const CpuFields& fields, const CpuWords& w)
      : CpuFields(fields), words(w), fetch(static_cast<CpuFetch>(prefetch)) {}
  CpuWords words;
  View a, b;
  bool a_k_contiguous, b_k_contiguous;
  bool a_in_place = false;  // A is read in place, not packed or copied
  bool vnni = false;        // vectors have products of four bytes (AVX512-VNNI, AVX-VNNI)
  bool dotprod = false;     // AArch64: the same, of signed bytes (sdot)
  bool i8mm = false;        // AArch64: products of two rows by two columns of eight bytes (smmla)
  // If not 0: B was packed in advance, in words of so many elements of K. Word w of column j is at element
  // b.offset + j / 16 * 16 * packed_depth + (w * 16 + j % 16) * packed_word.
  int64_t packed_word = 0;
  int64_t packed_depth = 0;  // K of all splits, rounded up to whole words
  Value batch;               // index: the number of products
  Value rows, columns, depth;
  int64_t tile_rows, tile_columns;            // upper bounds of rows and columns
  int64_t product_columns;                    // of the whole product (in transposed kernels too: N)
  int64_t least_rows = 1, least_columns = 1;  // lower bounds of them
  int64_t most_depth;                         // upper bound of depth
  int64_t register_rows, register_columns;    // the register tile
  CpuFetch fetch;                             // `prefetch`
  Value accumulators;  // memref<?xf32>, 64-byte aligned, of CpuWords::to_scratch of sums
  int64_t ld;
  Value packing;  // memref<?xf32>, 64-byte aligned: the rest of the scratch memory
  // The zero point of the product's A, an i32; null if it is 0. Transposed panels apply it to their columns
  // (the product's A), "dot" to rows, if K is not in blocks.
  Value zero_point;
  ir::UkernelAttr ukernel;  // "panel": the micro-kernel in C, over all of K; null: the generated one
  // Where sums go instead of `accumulators`, if given (`store_directly`).
  ProductsSink sink;
  // If there are pieces: `turn` transposes `count` finished rows, the first of which is row `at` of the
  // accumulators. `write` writes part number `part` of the rows from row i on to D; there are as many parts
  // as a piece has register tiles.
  std::function<void(Value at, Value count)> turn;
  std::function<void(Value i, Value count, Value part)> write;
  bool is_one_block() const { return tile_k >= most_depth; }  // all of K in one block
};

// The elements of a cache line.
inline int64_t elements_of_line(const View& v) { return 512 / v.element.getIntOrFloatBitWidth(); }
// Where element `k` (null: the first one) of row `i` of A is; past the last row that of the last row.
inline Value row_of_a(Emit& e, const CpuTile& t, Value i, Value k = nullptr) {
  Value row = row_at(e, t.a, e.min(i, e.sub(t.rows, e.idx(1))));
  return e.add(t.a.offset, k ? e.add(row, k) : row);
}
// The address of an element as a number.
Value address_of(Emit& e, Value memory, Value at);
// The part of a length that fills whole vectors.
inline Value whole_vectors(Emit& e, Value length, int64_t vector) {
  return e.mul(e.div(length, e.idx(vector)), vector);
}
// Runs `body` for all vectors of `length` elements: those of the first `whole` ones with a null `left`, then, unless
// `whole` is the same value as `length`, a masked one for the elements that are left.
void for_each_vector(Emit& e, Value whole, Value length, int64_t vector,
                     const std::function<void(Value at, Value left)>& body);
// Runs `body` along K at the tile's pace. `late` is a 0 that a chain of dependent instructions computes
// (kernels/matmul/cpu/shape.h); the addresses of what a step reads include it.
using PacedBody = std::function<Values(Value k, Value late, const Values& sums)>;
Values paced_loop(Emit& e, const CpuTile& t, Value from, Value to, int64_t step, Values sums,
                  const PacedBody& body);

// How a kernel's micro-kernel is emitted.
struct CpuForm {
  // What of the tile it cannot do, and the field's name; "" if it can.
  std::string (*refusal)(const CpuTile& t);
  int64_t (*packing_words)(const CpuTile& t);  // that it needs of the packing memory
  void (*emit)(Emit& e, const CpuTile& t);
};
// "dot": rows of A by columns of B, vectors along K, both operands K-contiguous. With tile_k A is packed in
// blocks.
extern const CpuForm kDotForm;
// "outer": streams rows of B, vectors along N. B is N-contiguous; A has few rows and any layout.
extern const CpuForm kOuterForm;
// "amx", "amx_t", "amx_packed": AMX tiles, of pairs of bf16 or of bytes; any layout.
extern const CpuForm kAmxForm;
// "bytes", "bytes_packed": A rounded to bytes by B in quantised blocks, a vector of columns at a time.
extern const CpuForm kBytesForm;
// "amx_bytes", "amx_bytes_packed": the same with AMX tiles.
extern const CpuForm kAmxBytesForm;
// "panel", "panel_t": packs A and B into panels tile_k deep; outer products in registers; any layout.
// "packed": as "panel" with B packed in advance (core/packed.h). "direct", "direct_a", "direct_packed": A
// is K-contiguous and read in place, in whole words; B is packed, for "direct_packed" from panels that were
// packed in advance.
extern const CpuForm kPanelForm;

// Sums of `depth` bytes along K per lane, from element `line` on.
Value sum_along_k(Emit& e, const CpuWords& words, const View& v, Value line, Value depth);

// What B's zero points subtract from a tile's products: for each row the sum of A's bytes (less A's zero
// point), for each column its zero point; i32, whole vectors, in scratch memory (memref<?xf32>).
struct ZeroSource {
  Value zero_b;  // memref<?xi32>
  bool of_columns;
  Value zero_a;  // A's zero point, an i32; null: 0
  Value rows, columns, depth, column0;
};
struct ZeroPointsOfB {
  CpuWords words;
  Value rows, columns;

  void store(Emit& e, const ZeroSource& s, const View& a, bool a_k_contiguous) const;
  // The products from (i, j) on, less that.
  Value take(Emit& e, Value products, Value i, Value j) const;
};

// A tile's products in scratch memory of the worker, row by row. Whole vectors may be read at the tile's
// edge.
struct CpuProducts {
  CpuWords words;
  Value memory;  // memref<?xf32>
  int64_t ld, scratch_bytes;
  std::optional<ZeroPointsOfB> zero_b;

  // The vector of products from (i, j) on, f32 or i32.
  Value at(Emit& e, Value i, Value j) const {
    Value x = words.sums_of(e.load_vector(memory, e.add(e.mul(i, ld), j), words.lanes));
    return zero_b ? zero_b->take(e, x, i, j) : x;
  }
};
// Emits a contraction's step up to the products, by the kernel that its config names. With
// `store_directly` or `piece` in the config the products go to `sink`, and the result has no memory.
llvm::FailureOr<CpuProducts> emit_products(Emit& e, const Arguments& arguments, TileProgram& p,
                                           const ProductsSink& sink = {});
// Applies the epilogue to the products from (i, j) on, `left` of them if given; returns them unchanged if
// there is none.
Value finish_vector(Emit& e, const TileProgram& p, Value products, Value i, Value j, Value left);

// Replaces the module's distributed matmul payload by CPU task functions, and records the scratch bytes
// that a worker needs.
mlir::LogicalResult emit_matmul_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
