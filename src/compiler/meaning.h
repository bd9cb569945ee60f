// What a payload says, op by op and element by element, for whoever evaluates it: nothing is recognised here.
// A function whose meaning this is can be judged without a word of inspect.h, which reads the same text as a
// program of Lathe's ops.
#pragma once

#include <optional>
#include <string>

#include "compiler/mlir.h"
#include "core/json.h"

namespace lathe {

// {"arguments": how many, "results": [value...], "ops": [op...]}. Values are numbered: the arguments, then
// every result that is a tensor, in the order of the text. An op has its "location", and is
//   {"value", "shape", "same_as": value}                     another shape of the same elements, in the same
//   order
//   {"value", "shape", "fill": number}                       the same number everywhere
//   {"value", "shape", "empty": true}                        nothing
//   {"value", "results": 2, "dtype": [...], "reduction": [bool...], "operands": [{"value", "map"} or
//   {"number"}...],
//    "inputs": 1, "body": [node...], "yield": [node...]}     a linalg op over its loops
// A map has for each dimension of the tensor [constant, coefficient of each loop...]. Nodes are numbered: one
// for each operand, then ["arith.addf", "f32", node...] and so on; ["number", type, x], ["index", loop], and
// a comparison's predicate follows its operands. A number of an integer type is sign-extended from its width
// (a true i1 is -1), which is 64 bits at most. null: the function has what no evaluator knows; `why` says
// what.
Json meaning_of(mlir::func::FuncOp function, std::string* why);

// Of one op, which gives `value`; its operands are numbered by `number_of`.
Json meaning_of(mlir::linalg::LinalgOp op, int64_t value, llvm::function_ref<int64_t(mlir::Value)> number_of,
                std::string* why);

// A constant as a number of the meaning; nothing where it is none.
std::optional<Json> number_in(mlir::Value scalar);

// "payload.mlir:3:8"; "" where it names no file.
std::string location_text(mlir::Location location);

// "f32": of a scalar or of a tensor's elements.
std::string type_name(mlir::Type type);

// The numbers.
llvm::DenseMap<mlir::Value, int64_t> numbered_values(mlir::func::FuncOp function);

}  // namespace lathe
