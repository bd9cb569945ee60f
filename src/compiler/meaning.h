// The meaning of a payload: a literal translation of its ops to data, which an evaluator can execute element by
// element. It recognises no Lathe ops. So it can check inspect.h independently, which reads the same text as a
// program of Lathe's ops.
#pragma once

#include <optional>
#include <string>

#include "compiler/mlir.h"
#include "core/json.h"

namespace lathe {

// The meaning of a function: {"arguments": count, "results": [value...], "ops": [op...]}. Values are numbered:
// first the arguments, then every tensor result in the order of the text. An op has its "location" and is one
// of:
//   {"value", "shape", "same_as": value}  the same elements in the same order, with another shape
//   {"value", "shape", "fill": number}    all elements have this value
//   {"value", "shape", "empty": true}     elements are undefined
//   {"value", "results": 2, "dtype": [...], "reduction": [bool...],
//    "operands": [{"value", "map"} or {"number"}...],
//    "inputs": 1, "body": [node...], "yield": [node...]}  a linalg op
// A map has a row [constant, coefficient of each loop...] for each dimension of the tensor. Nodes are numbered:
// first one for each operand, then those of the body: ["arith.addf", "f32", node...], ["number", type, x],
// ["index", "index", loop]. A comparison has its predicate after its operands. Integers are sign-extended from
// their width, at most 64 bits, so a true i1 is -1.
//
// Returns null if the function contains something that the evaluator cannot evaluate; *why says what.
Json meaning_of(mlir::func::FuncOp function, std::string* why);

// The meaning of one op, whose result has the number `value`. `number_of` gives the numbers of its operands.
Json meaning_of(mlir::linalg::LinalgOp op, int64_t value, llvm::function_ref<int64_t(mlir::Value)> number_of,
                std::string* why);

// The value of a constant scalar as the meaning writes it; nullopt if it is not a constant.
std::optional<Json> number_in(mlir::Value scalar);

// Such as "payload.mlir:3:8"; empty if the location names no file.
std::string location_text(mlir::Location location);

// The type of a scalar or of a tensor's elements, such as "f32".
std::string type_name(mlir::Type type);

// The numbers of the function's values in its meaning.
llvm::DenseMap<mlir::Value, int64_t> numbered_values(mlir::func::FuncOp function);

}  // namespace lathe
