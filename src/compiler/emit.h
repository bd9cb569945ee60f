// The toolbox of the emitters: short functions that build index, vector and loop IR, and access to the argument
// block. An emitter turns a payload function (linalg on tensors, distributed into scf.forall) into kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "compiler/mlir.h"

namespace lathe::emit {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

// Builds IR at the insertion point of `b`. Index arithmetic folds constants, so static sizes stay static.
class Emit {
 public:
  // The insertion point of `builder` must be in a function that is already inserted in its module. Do not
  // construct an Emit inside the body of a loop that is being built, because that loop is not inserted yet.
  Emit(mlir::OpBuilder& builder, mlir::Location location)
      : b(builder),
        loc(location),
        symbols(mlir::SymbolTable::getNearestSymbolTable(builder.getInsertionBlock()->getParentOp())) {}

  mlir::OpBuilder& b;
  mlir::Location loc;
  mlir::Operation* symbols;  // the module or gpu.module that contains the function

  // --- types
  Type index() { return b.getIndexType(); }
  Type f32() { return b.getF32Type(); }
  mlir::VectorType vec(int64_t lanes, Type element) { return mlir::VectorType::get({lanes}, element); }

  // --- constants and integer arithmetic, on index or on i32 (inner loops of GPU kernels). Both operands have
  // the same type. Results must not overflow: operations are marked nsw.
  Value idx(int64_t value);
  Value i32(int64_t value) { return constant(b.getI32Type(), value); }
  Value constant(Type type, int64_t value);
  Value to_i32(Value index) { return mlir::arith::IndexCastOp::create(b, loc, b.getI32Type(), index); }
  Value to_index(Value i32) { return mlir::arith::IndexCastOp::create(b, loc, index(), i32); }
  // Like to_index, for values that are never negative. div and rem of two such values use 32 bits. A 64-bit
  // division becomes a call if PTX is compiled for linking, and calls serialise wgmma (ptxas advisory C7509).
  Value widen(Value i32) { return mlir::arith::IndexCastUIOp::create(b, loc, index(), i32); }
  Value constant_f32(float value);
  Value zero(Type type) { return mlir::arith::ConstantOp::create(b, loc, b.getZeroAttr(type)); }
  Value splat(mlir::VectorType type, double value);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value min(Value x, Value y);
  Value div(Value x, Value y);       // unsigned
  Value rem(Value x, Value y);       // unsigned
  Value ceil_div(Value x, Value y);  // unsigned
  Value add(Value x, int64_t y) { return add(x, constant(x.getType(), y)); }
  Value mul(Value x, int64_t y) { return mul(x, constant(x.getType(), y)); }
  Value less(Value x, Value y);  // unsigned
  Value equal(Value x, Value y);
  // The value if it is a constant.
  static std::optional<int64_t> known(Value x);

  // --- control flow
  void loop(Value from, Value to, int64_t step, const std::function<void(Value)>& body);
  Values loop(Value from, Value to, int64_t step, const Values& init,
              const std::function<Values(Value, const Values&)>& body);
  void when(Value condition, const std::function<void()>& then);
  Values choose(Value condition, const Values& like, const std::function<Values()>& then,
                const std::function<Values()>& otherwise);

  // --- memory: 1-d memrefs with element offsets. `alignment` of the address is in bytes; 0: one element.
  Value load(Value memory, Value at, int64_t alignment = 0);
  void store(Value value, Value memory, Value at, int64_t alignment = 0);
  Value load_vector(Value memory, Value at, int64_t lanes, int64_t alignment = 0);
  // Lanes from `count` on are not accessed and have the value `fill`.
  Value load_masked(Value memory, Value at, int64_t lanes, Value count, double fill = 0);
  void store_vector(Value value, Value memory, Value at, int64_t alignment = 0);
  void store_masked(Value value, Value memory, Value at, Value count);
  void prefetch(Value memory, Value at, int locality = 3);

  // --- numbers
  // Converts scalars or vectors of f16, bf16 or 8-bit floats to f32.
  Value to_f32(Value x);
  // Converts an element to the type in which it is multiplied: i8 to i32, everything else to f32.
  Value to_factor(Value x);
  // Converts f32 to the element type, rounding to nearest even.
  Value from_f32(Value x, Type element);
  Value broadcast(Value scalar, int64_t lanes);
  // A vector with one lane per element.
  Value from_elements(const Values& elements);
  // x * y + z, rounded once. On i32 it wraps around.
  Value fma(Value x, Value y, Value z);
  // Transposes a square of vectors (as many rows as lanes) in log2(lanes) stages of two-source shuffles.
  Values transpose(Values rows);
};

// A 1-d memref over memory at `pointer` (an !llvm.ptr).
Value memory_at(Emit& e, Value pointer, Type element);
// The address of an element of a memref that memory_at made.
Value pointer_to(Emit& e, Value memory, Value at);

// The fields of the argument block as values: index for integers, !llvm.ptr for pointers, f32.
class Arguments {
 public:
  // `block` is the !llvm.ptr parameter of a CPU kernel.
  static Arguments from_block(Emit& e, Value block);
  // `parameters` are those of a GPU kernel, one per field in order.
  static Arguments from_parameters(Emit& e, ValueRange parameters);

  Value get(llvm::StringRef field) const;
  // The same arguments with another value of `field`.
  Arguments with(llvm::StringRef field, Value value) const {
    Arguments changed = *this;
    changed.values_[field] = value;
    return changed;
  }

 private:
  llvm::StringMap<Value> values_;
};
// The types of a GPU kernel's parameters, one per field of the argument block.
llvm::SmallVector<Type> parameter_types(mlir::MLIRContext* context, unsigned pointer_address_space);

// A region of a stored matrix. Element (i, j) is at offset + i * row_stride + j in `memory`.
struct View {
  Value memory;
  Value offset;
  Value row_stride;
  Value batch_stride;  // of operands with a batch, else null
  Type element;
  int64_t alignment = 0;  // of every element, in bytes; 0: one element
  // Generic kernels, A and B: whether K is the contiguous dimension (i1). row_stride is the leading dimension;
  // the stride of the contiguous dimension is 1. Null: the contraction's map says which one is contiguous.
  Value k_contiguous;
  // Generic kernels, operands and results of the epilogue: the number of the stored dtype (index) and the
  // address. `memory` and `element` then describe the type of the computation. Null: stored as `element`.
  //
  // Grouped kernels with listed rows, without a dtype: `pointer` is a memref of index, the offset of each of the tile's
  // rows from `offset`, in place of row_stride (row_at()).
  Value dtype, pointer;
  bool lists_rows() const { return pointer && !dtype; }
  // The block format in which the elements are stored; `memory` is then of bytes. kNone: no blocks.
  DType blocks = DType::kNone;
  // The scales of these blocks, if they are an array of their own (a memref of bytes).
  Value scales;
};

// The offset of row `i` (index) of a view from its first element. Listed rows: `i` must be less than the tile's height.
Value row_at(Emit& e, const View& v, Value i);

// The rows of one tile of a grouped product.
struct GroupRows {
  Value group, count;  // index
  // Rows that follow each other: the first row of A and D (in the group's matrix, for kCounts), and its slot. Listed
  // rows: the place of the first one in the list.
  Value first, first_slot;
  // Listed rows: memrefs of index with the offsets of the tile's rows.
  Value a, d, residual;
  Value sums;  // the f32 memory to which D's rows go if slots are summed, else null
};

// One step of a distributed payload, ready to emit. Its index computations are cloned for the given workgroup
// and its slices are resolved to views.
struct TileProgram {
  mlir::linalg::LinalgOp contraction;  // null in a merge step
  mlir::linalg::GenericOp reduction;   // merge step: the sum of partial results; otherwise null
  mlir::linalg::GenericOp epilogue;    // null if the step stores partial results
  // argmax steps: the reduction of a slice of a row, of (value, index) pairs (two inputs), or, in
  // matmul_argmax, of a tile of logits.
  mlir::Operation* argmax = nullptr;
  // The views of the linalg operands, by their SSA value (a tile) in the payload.
  llvm::DenseMap<Value, View> views;
  // Maps values of the payload (indices, sizes, scalars) to emitted values. Grouped products: also the tile of the bias
  // to the distance of its columns.
  mlir::IRMapping mapping;
  // The region that the step writes.
  View output;
  // The sizes of the written tile (without leading unit dimensions) and of the reduction. matmul_argmax: of
  // the tile of products. argmax: no columns; the depth is the length of the slice or the number of pairs.
  Value rows, columns, depth;
  Value first_column;  // argmax: the column of the row where the slice starts
  // Steps with a contraction: the position of the tile in the whole product; the split, 0 without a split.
  Value batch, row0, column0, depth0, split;
  int64_t n = 0, k = 0;  // matmul: sizes of the whole product
};

// The position of a workgroup or CPU task in the grid.
struct GridPosition {
  Value x, y, z;
};

// Clones the index computations of `forall` to the insertion point and resolves its slices to views.
llvm::FailureOr<TileProgram> instantiate(Emit& e, mlir::scf::ForallOp forall, const Arguments& arguments,
                                         const GridPosition& position);
// The same for a tile of a grouped product, at {0, y, group}.
llvm::FailureOr<TileProgram> instantiate(Emit& e, mlir::scf::ForallOp forall, const Arguments& arguments,
                                         const GridPosition& position, const GroupRows& rows);
// The number of workgroups along x, y and z, computed from the bounds of the forall.
GridPosition grid_of(Emit& e, mlir::scf::ForallOp forall, const Arguments& arguments);

// Whether K is the contiguous dimension of an operand (0: A, 1: B) of a contraction with loops (b, m, n, k).
bool k_contiguous(mlir::linalg::LinalgOp contraction, unsigned operand);

// Clones the body of an elementwise linalg.generic for scalars (lanes == 0) or vectors. `inputs` are the values
// of its block arguments in order, including the outputs (null if unused). Scalars of the payload are
// broadcast.
Value inline_elementwise(Emit& e, mlir::linalg::GenericOp op, llvm::ArrayRef<Value> inputs, int64_t lanes,
                         const mlir::IRMapping& scalars);

}  // namespace lathe::emit
