// The pieces of inspect.cc: a payload's steps while they are put together.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "compiler/mlir.h"
#include "core/json.h"
#include "core/problem.h"

namespace lathe::payload {

// A tensor as a step sees it: what each of its dimensions is, outermost first.
struct Access {
  mlir::Value tensor;  // null: the step has no such operand
  std::string dims;    // loops of one kind, side by side and in order, are one
};

struct Step {
  Step(Op o, mlir::Location l) : op(o), location(l) {}
  Op op;
  mlir::Location location;
  // elementwise: its result in d, what it reads in `reads`; then a kernel's program and its inputs, or why
  // there is none and the host does it.
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

// Why an op is not understood; "" where it is.
using Reason = std::string;

// kNone: no element type of Lathe's.
DType dtype_of(mlir::Type element);
// The letters of a map's results, one for each of its dimensions; "" if a result is anything else than a
// dimension.
std::string letters_of(mlir::AffineMap map, llvm::ArrayRef<char> dimensions);
// The number that a scalar is a constant of.
std::optional<double> constant_of(mlir::Value scalar);
// Whether `init`, what an op starts from, holds `number` everywhere.
bool is_filled(mlir::Value init, double number);

// inspect_product.cc: `op` as the product of two tensors, its result in step->d.
Reason read_product(mlir::linalg::LinalgOp op, Step* step);

// `op` as a diagonal matrix times another, each row's factor a batch of its own; its result in step->d.
Reason read_diagonal(mlir::linalg::LinalgOp op, Step* step);

// inspect_epilogue.cc: `op`, elementwise, as what follows `product` (one of its operands) in an epilogue. Its
// result becomes step->d.
Reason read_epilogue(mlir::linalg::LinalgOp op, mlir::Value product, Step* step);

// inspect_elementwise.cc: `op`, of parallel loops alone, as a program: its inputs, resolved, and the dims of
// its result.
Reason read_elementwise(mlir::linalg::LinalgOp op, llvm::function_ref<Reason(Access*)> resolve, Step* step);

// inspect_argmax.cc: whether `op` reduces to an index, and then its step.
bool is_argmax(mlir::linalg::LinalgOp op);
Reason read_argmax(mlir::linalg::LinalgOp op, Step* step);
// The dimension whose index every element of `tensor` is, plus *offset; nothing: it is made otherwise.
std::optional<unsigned> dimension_counted(mlir::Value tensor, int64_t* offset);
// Makes of a matmul, whose result `argmax` alone reads, one step; false where Lathe has no such op.
bool join_argmax(const Step& product, Step* argmax);

}  // namespace lathe::payload
