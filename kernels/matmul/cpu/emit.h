// CPU matmul kernels: forms that compute one tile of products (f32, of bytes i32) into this worker's scratch.
#pragma once

#include <functional>
#include <optional>

#include "compiler/dialect.h"
#include "compiler/emit.h"
#include "kernels/matmul/cpu/emit_words.h"
#include "kernels/matmul/cpu/shape.h"

namespace lathe::emit {

// Localities of a prefetch. What is met a group of columns later L1 would have lost, and fetches into L2 do
// not hold the few lines that L1 may have under way ("dot" in blocks, M = 8 on Zen 4: 8.5 ms fetched into
// L1, 4.3 into L2).
constexpr int kIntoL2 = 2, kIntoL1 = 3;

// Vectors of products from (i, j) of the tile on, `left` of them if given, on their way to D.
struct ProductsSink {
  std::function<void(Value products, Value i, Value j, Value left)> store;
  explicit operator bool() const { return store != nullptr; }
};

// One tile's work: acc[i][j] (row-major, leading dimension `ld`, padded so that whole register tiles may be
// written) = sum over k < depth of A(i, k) B(k, j), for i < rows, j < columns.
struct CpuTile {
  explicit CpuTile(const CpuWords& w) : words(w) {}
  CpuWords words;
  View a, b;
  bool a_k_contiguous, b_k_contiguous;
  bool a_in_place = false;  // "direct", "direct_a" and "direct_packed": A is read where it lies
  // Of CompileConfig, see there.
  bool narrow_passes = false, copy_rows = false, copy_ahead = false;
  int64_t prefetch_lines = 0, chains = 1;
  // Not 0: B is packed in words of so many elements of K, as `words` are or pairs of bf16; word w of column j
  // is at element b.offset + j / 16 * 16 * packed_depth + (w * 16 + j % 16) * packed_word.
  int64_t packed_word = 0;
  int64_t packed_depth = 0;  // K of all splits, in whole words
  Value rows, columns, depth;
  int64_t tile_rows, tile_columns;            // what rows and columns are at most
  int64_t least_rows = 1, least_columns = 1;  // what they are at least
  int64_t most_depth;                         // what depth is at most
  int64_t register_rows, register_columns;    // accumulators held in registers
  int64_t tile_k, unroll_k, lanes;
  CpuFetch fetch;      // what is fetched ahead
  int64_t pace;        // cycles of a turn of the innermost loop at least; 0: as few as it takes
  Value accumulators;  // memref<?xf32>, 64-byte aligned; CpuWords::to_scratch of the sums
  int64_t ld;
  Value packing;  // memref<?xf32>, 64-byte aligned: what scratch is left after the accumulators
  // The product's A counts from there: an i32, null where it is 0. "panel" takes it of its columns alone (its
  // rows are then B), "dot" of rows, unless K is in blocks.
  Value zero_point;
  ir::UkernelAttr ukernel;  // "panel": the inner kernel, over all of K at once; null: as generated
  // Where the sums go instead of `accumulators`, if given: "outer" and "direct_a" of all of K at once alone.
  ProductsSink sink;
  // "direct": so many rows at a time are finished once their sums are whole; 0: none are. `turn` takes
  // `count` of them, the first of which lies in row `at` of the accumulators, `write` those from row i on, of
  // which `part` is written of as many as a piece has register tiles.
  int64_t piece = 0;
  std::function<void(Value at, Value count)> turn;
  std::function<void(Value i, Value count, Value part)> write;
  bool is_one_block() const { return tile_k >= most_depth; }  // of K
};

// A loop over memory held to a pace (kernels/matmul/cpu/shape.h): what is added to its counter is 0, a chain
// of dependent instructions late in every turn.
struct Pace {
  Pace(Emit& e, const CpuTile& t);
  Value start() const { return zero; }
  Value next(Emit& e, Value late) const;

 private:
  Value zero;  // not known to the compiler where there is a pace
  int64_t cycles;
};

// Every form has up to three functions: `refusal` says what of the tile it cannot do, "" if it can do all of
// it; `packing_elements` says how many words of packing memory it needs; `emit` emits it.
//
// Form "dot": rows of A against columns of B, vectors along K. Both K-contiguous. With tile_k: A packed in
// blocks.
std::string dot_refusal(const CpuTile& t);
void emit_dot(Emit& e, const CpuTile& t);
int64_t dot_packing_elements(const CpuTile& t);
// Form "outer": streams rows of B, vectors along N; B N-contiguous, few rows of A, any layout of A.
std::string outer_refusal(const CpuTile& t);
void emit_outer(Emit& e, const CpuTile& t);
// Forms "amx", "amx_t", "amx_packed": AMX's tiles, of pairs of bf16 and of bytes; any layout.
std::string amx_refusal(const CpuTile& t);
void emit_amx(Emit& e, const CpuTile& t);
int64_t amx_packing_elements(const CpuTile& t);
// Form "bytes": A rounded to bytes against B in blocks, sixteen columns at a time.
std::string bytes_refusal(const CpuTile& t);
void emit_bytes(Emit& e, const CpuTile& t);
int64_t bytes_packing_elements(const CpuTile& t);
// Form "packed": B comes in panels (core/packed.h), A's panels are packed as in "panel".
// Forms "direct", "direct_a", "direct_packed": A is read where it lies, K-contiguous whole words, B's panels
// are packed as in "panel" (of "direct_packed" from those that B comes in).
//
// Form "panel": packs A and B into panels of words of depth tile_k, outer product on registers. Any layout.
std::string panel_refusal(const CpuTile& t);
void emit_panel(Emit& e, const CpuTile& t);
int64_t panel_packing_elements(const CpuTile& t);

// Every register tile of rows, piece by piece, which are finished where `ends`: in the last block of K. Null:
// in this one. After the last piece comes a turn that only writes it.
void rows_in_pieces(Emit& e, const CpuTile& t, Value ends,
                    const std::function<void(Value i, Value at_row)>& one_tile);

// The lanes' sums of `depth` bytes along K, from the element `line` on.
Value sum_along_k(Emit& e, const CpuWords& words, const View& v, Value line, Value depth);

// What B's zero points take from a tile's products: for each row the sum of what A's bytes count, for each
// column its zero point, i32 in this worker's scratch (memref<?xf32>, whole vectors).
struct ZeroSource {
  Value zero_b;  // memref<?xi32>
  bool of_columns;
  Value zero_a;  // an i32; null: 0
  Value rows, columns, depth, column0;
};
struct ZeroPointsOfB {
  CpuWords words;
  Value rows, columns;

  void store(Emit& e, const ZeroSource& s, const View& a, bool a_k_contiguous) const;
  // The products from (i, j) on, less what is theirs.
  Value take(Emit& e, Value products, Value i, Value j) const;
};

// A tile's products in this worker's scratch, row by row; whole vectors may be read at the tile's edge.
struct CpuProducts {
  CpuWords words;
  Value memory;  // memref<?xf32>
  int64_t ld, scratch_bytes;
  std::optional<ZeroPointsOfB> zero_b;

  // The vector of products from (i, j) on, f32 or i32.
  Value at(Emit& e, Value i, Value j) const {
    Value x = words.sums_of(e.load_vector(memory, e.add(e.mul(i, ld), j), words.lanes()));
    return zero_b ? zero_b->take(e, x, i, j) : x;
  }
};
// The work of a contraction's step up to there, in the form that its plan names. Forms "outer", "direct" and
// "direct_a" hand products of all of K to `sink` if that is given, and there is no memory of them then.
llvm::FailureOr<CpuProducts> emit_products(Emit& e, const Arguments& arguments, TileProgram& p,
                                           const ProductsSink& sink = {});
// The epilogue of a vector of products from (i, j) on, `left` of them if given; the products where there is
// none.
Value finish_vector(Emit& e, const TileProgram& p, Value products, Value i, Value j, Value left);

// Replaces the module's distributed matmul payload by CPU task functions and notes the scratch bytes a worker
// needs.
mlir::LogicalResult emit_matmul_cpu(mlir::ModuleOp module);

}  // namespace lathe::emit
