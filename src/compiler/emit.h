// What every emitter is written with: short names for index, vector and loop IR, and access to the argument
// block. An emitter turns one payload function (linalg on tensors, distributed into scf.forall) into kernels.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/mlir.h"

namespace lathe::emit {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using Values = llvm::SmallVector<Value>;

// Builds IR at `b`'s insertion point. Index arithmetic folds constants, so static sizes stay static.
class Emit {
 public:
  // `builder` is in a function that is in its module. (A loop that is being emitted is not yet.)
  Emit(mlir::OpBuilder& builder, mlir::Location location)
      : b(builder),
        loc(location),
        symbols(mlir::SymbolTable::getNearestSymbolTable(builder.getInsertionBlock()->getParentOp())) {}

  mlir::OpBuilder& b;
  mlir::Location loc;
  mlir::Operation* symbols;  // the module or gpu.module that has the function

  // --- types
  Type index() { return b.getIndexType(); }
  Type f32() { return b.getF32Type(); }
  mlir::VectorType vec(int64_t lanes, Type element) { return mlir::VectorType::get({lanes}, element); }

  // --- constants and integer arithmetic, on index or (GPU kernels' inner loops) i32: both sides of one type.
  // No wrap-around: sizes and offsets stay below the type's end.
  Value idx(int64_t value);
  Value i32(int64_t value) { return constant(b.getI32Type(), value); }
  Value constant(Type type, int64_t value);
  Value to_i32(Value index) { return mlir::arith::IndexCastOp::create(b, loc, b.getI32Type(), index); }
  Value to_index(Value i32) { return mlir::arith::IndexCastOp::create(b, loc, index(), i32); }
  // to_index of what is never negative. div and rem of two such values are of 32 bits: those of 64 are calls
  // wherever PTX is compiled for linking, and wgmma is serialised in a kernel with calls (ptxas' C7509).
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

  // --- memory: 1-d memrefs, element offsets. `alignment` of the address in bytes; 0: one element's.
  Value load(Value memory, Value at, int64_t alignment = 0);
  void store(Value value, Value memory, Value at, int64_t alignment = 0);
  Value load_vector(Value memory, Value at, int64_t lanes, int64_t alignment = 0);
  // Lanes at and beyond `count` are not touched and read as `fill`.
  Value load_masked(Value memory, Value at, int64_t lanes, Value count, double fill = 0);
  void store_vector(Value value, Value memory, Value at, int64_t alignment = 0);
  void store_masked(Value value, Value memory, Value at, Value count);
  void prefetch(Value memory, Value at, int locality = 3);

  // --- numbers
  // Scalars or vectors of f16, bf16 or 8-bit floats to f32; f32 unchanged.
  Value to_f32(Value x);
  // An operand's element as it is multiplied: i8 as i32, everything else as f32.
  Value to_factor(Value x);
  // f32 to the element type, rounded to nearest even.
  Value from_f32(Value x, Type element);
  Value broadcast(Value scalar, int64_t lanes);
  // As many lanes as there are.
  Value from_elements(const Values& elements);
  // x * y + z, rounded once; exact on i32, where sums wrap around.
  Value fma(Value x, Value y, Value z);
  // Transposes `rows` (as many vectors as lanes) in log2(lanes) stages of two-source shuffles.
  Values transpose(Values rows);
};

// A 1-d memref over memory at `pointer` (an !llvm.ptr).
Value memory_at(Emit& e, Value pointer, Type element);
// The address of an element of such a memref.
Value pointer_to(Emit& e, Value memory, Value at);

// The argument block's fields as values: index for integers, !llvm.ptr for pointers, f32.
class Arguments {
 public:
  // `block` is the !llvm.ptr parameter of a CPU kernel.
  static Arguments from_block(Emit& e, Value block);
  // GPU: the kernel function's parameters, one per field in order.
  static Arguments from_parameters(Emit& e, ValueRange parameters);

  Value get(llvm::StringRef field) const;

 private:
  llvm::StringMap<Value> values_;
};
// Parameter types of a GPU kernel: the fields of the argument block.
llvm::SmallVector<Type> parameter_types(mlir::MLIRContext* context, unsigned pointer_address_space);

// A region of a stored matrix: element (i, j) is at offset + i * row_stride + j in `memory` (its last
// dimension is contiguous).
struct View {
  Value memory;
  Value offset;
  Value row_stride;
  Type element;
  int64_t alignment = 0;  // of any element, in bytes; 0: one element's
  // Generic kernels. A and B: whether they lie along K in memory (i1); row_stride is then the leading
  // dimension, and the other one's stride is 1. Null: as the contraction's map says.
  Value k_contiguous;
  // What is stored, the epilogue's operands and results: the dtype's number (index) and the memory's address;
  // `memory` and `element` are of what it is computed in. Null: `element`.
  Value dtype, pointer;
};

// One step of a distributed payload, analysed and ready to emit: index computations cloned for the given
// workgroup, slices resolved to views.
struct TileProgram {
  mlir::linalg::LinalgOp contraction;  // null in a merge step
  mlir::linalg::GenericOp reduction;   // merge step: sum of partial results; null otherwise
  mlir::linalg::GenericOp epilogue;    // null when partial results are stored
  // argmax steps: the reduction of a slice, of a tile's logits (matmul_argmax: beside the contraction and the
  // epilogue) or of pairs (two inputs).
  mlir::Operation* argmax = nullptr;
  // Views of linalg operands, by their (tile) SSA value in the payload.
  llvm::DenseMap<Value, View> views;
  // Values of the payload (indices, sizes, scalars) -> emitted values.
  mlir::IRMapping mapping;
  // The region the step writes.
  View output;
  // Sizes of the written tile (leading unit dimensions dropped) and of the reduction. matmul_argmax: of the
  // product's tile. argmax: no columns, the depth is that of the slice or the number of pairs.
  Value rows, columns, depth;
  Value first_column;  // argmax: where the slice starts in its row
  // matmul, a contraction's step: where its tile lies in the whole product. Which split it is, 0 without one.
  Value batch, row0, column0, depth0, split;
  int64_t n = 0, k = 0;  // matmul: of the whole product
};

// Grid position of the workgroup (or CPU task).
struct GridPosition {
  Value x, y, z;
};

// Clones what `forall` computes before its linalg ops to the insertion point and resolves its slices.
llvm::FailureOr<TileProgram> instantiate(Emit& e, mlir::scf::ForallOp forall, const Arguments& arguments,
                                         const GridPosition& position);
// Number of workgroups along x, y and z, computed from the forall's bounds.
GridPosition grid_of(Emit& e, mlir::scf::ForallOp forall, const Arguments& arguments);

// Whether an operand (0: A, 1: B) of a contraction with loops (b, m, n, k) lies along k in memory.
bool k_contiguous(mlir::linalg::LinalgOp contraction, unsigned operand);

// Clones the body of an elementwise linalg.generic for scalars (lanes == 0) or vectors. `inputs` are its
// block arguments' values in order (outputs included, null where unused); scalars of the payload are
// broadcast.
Value inline_elementwise(Emit& e, mlir::linalg::GenericOp op, llvm::ArrayRef<Value> inputs, int64_t lanes,
                         const mlir::IRMapping& scalars);

}  // namespace lathe::emit
