// The parts of inspect.cc: the steps of a payload while they are being built.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "compiler/mlir.h"
#include "core/json.h"
#include "core/problem.h"

namespace lathe::payload {

// A tensor as an operand of a step, with one letter for each dimension, outermost first (inspect.h).
struct Access {
  mlir::Value tensor;  // null if the step has no such operand
  std::string dims;    // adjacent dimensions with the same letter count as one
};

struct Step {
  Step(Op o, mlir::Location l) : op(o), location(l) {}
  Op op;
  mlir::Location location;
  // elementwise: the result is `d`, the operands are `reads`. Either the kernel's program and its inputs, or in
  // `on_host` the reason why the host must compute it.
  std::vector<mlir::Value> reads;
  std::string program, on_host;
  std::vector<Access> inputs;
  Access a, b, c, bias, residual, d;  // argmax: a is x
  Access indices, values;
  double alpha = 1;
  Activation activation = Activation::kNone;
  DType logits = DType::kNone;
  int64_t index_offset = 0;
};

// Why an op cannot be read; empty if it can.
using Reason = std::string;

// kNone if Lathe does not support the element type.
DType dtype_of(mlir::Type element);
// The letters of the map's results, given the letter of each loop. Empty if a result is not a single loop.
std::string letters_of(mlir::AffineMap map, llvm::ArrayRef<char> dimensions);
// The value of a constant scalar; nullopt if it is not a constant.
std::optional<double> constant_of(mlir::Value scalar);
// Whether every element of `init`, the initial value of an op, equals `number`.
bool is_filled(mlir::Value init, double number);

// inspect_product.cc: reads `op` as the product of two tensors. Its result is step->d.
Reason read_product(mlir::linalg::LinalgOp op, Step* step);

// Reads `op` as a diagonal matrix times a matrix, a product with one batch per row. Its result is step->d.
Reason read_diagonal(mlir::linalg::LinalgOp op, Step* step);

// inspect_epilogue.cc: reads an elementwise `op` as an epilogue of `product`, one of its operands. Its result
// becomes step->d.
Reason read_epilogue(mlir::linalg::LinalgOp op, mlir::Value product, Step* step);

// inspect_elementwise.cc: reads an `op` with only parallel loops as a program. Sets the program, its inputs
// (passed through `resolve`) and the dims of the result.
Reason read_elementwise(mlir::linalg::LinalgOp op, llvm::function_ref<Reason(Access*)> resolve, Step* step);

// inspect_argmax.cc: whether `op` reduces to an index. If so, read_argmax reads its step.
bool is_argmax(mlir::linalg::LinalgOp op);
Reason read_argmax(mlir::linalg::LinalgOp op, Step* step);
// If every element of `tensor` is its index along one dimension plus a constant, returns that dimension and sets
// *offset to the constant.
std::optional<unsigned> dimension_counted(mlir::Value tensor, int64_t* offset);
// Merges a matmul, whose result only `argmax` reads, into `argmax`. Returns false if Lathe has no such op.
bool join_argmax(const Step& product, Step* argmax);

}  // namespace lathe::payload
