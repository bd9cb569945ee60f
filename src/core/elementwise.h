// The program of an elementwise op: what its kernel computes of each element, as a text that travels with the
// class (whose digest of it is in the key) to whoever compiles the kernel.
//
//   {"d":"f32",
//    "inputs":[{"dims":"bmn","dtype":"bf16"},{"dims":"n","dtype":"f32"}],
//    "nodes":[["arith.extf","f32",0],["arith.mulf","f32",2,1],["number","f32",0.0],["arith.maximumf","f32",3,4]],
//    "yield":5}
//
// Values are numbered: the inputs, then the nodes, each of which reads lower numbers alone. An input's dims
// are what it has of the loops b (batch), m and n, b first; "nm" lies along m in memory, all others along n.
// Nodes: [operation, type, value...] (for comparisons then the predicate, for casts between integers and from
// them the operand's type), ["number", type, x] (floats also "nan", "inf", "-inf"), ["index", "index", loop]
// with 0 for b, 1 for m, 2 for n. MLIR's arith and math dialects say what they mean, rounding of every f16
// and bf16 node included.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "core/problem.h"

namespace lathe {

enum class NodeType : int32_t { kIndex, kI1, kI8, kI16, kI32, kI64, kF16, kBF16, kF32 };
absl::string_view name_of(NodeType t);  // as MLIR spells it
constexpr bool is_float(NodeType t) { return t >= NodeType::kF16; }

// How an operation's types and operands hang together.
enum class NodeForm {
  kNumber,
  kIndex,
  kFloat1,  // one operand of the result's type
  kFloat2,
  kInteger2,
  kWiden,     // of floats
  kNarrow,    // of floats
  kExtend,    // of integers, named with the operand's type
  kTruncate,  // of integers
  kFromInteger,
  kIndexCast,
  kSelect,
  kCompareFloats,
  kCompareIntegers,
};

struct ElementwiseNode {
  NodeForm form = NodeForm::kNumber;
  const char* name = "";  // as MLIR spells the operation
  NodeType type = NodeType::kF32;
  std::array<int32_t, 3> values = {0, 0, 0};
  int32_t value_count = 0;
  const char* predicate = "";
  double number = 0;    // of a float
  int64_t integer = 0;  // of any other number; of an index its loop
};

// The argument block's pointers that inputs come in, by ElementwiseInput::slot.
enum class ElementwiseSlot : int32_t { kA = 0, kB = 1, kC = 2, kResidual = 3, kBias = 4 };
constexpr size_t kMostElementwiseInputs = 5;

struct ElementwiseInput {
  DType dtype = DType::kNone;
  bool batch = false, m = false, n = false;
  bool along_m = false;  // "nm"
  // a, b, c, residual in order; the bias, which has no strides, is that one of five that lies along n alone.
  ElementwiseSlot slot = ElementwiseSlot::kA;
};

struct ElementwiseProgram {
  std::vector<ElementwiseInput> inputs;
  std::vector<ElementwiseNode> nodes;
  int32_t yield = 0;
  DType d = DType::kNone;
  std::string text;  // canonical: of any spelling of the same program
  uint64_t digest_lo = 0, digest_hi = 0;

  NodeType type_of(int32_t value) const;
};

// Of any bytes: kInvalidArgument names the node or the input, and what is wrong with it; kUnimplemented: a
// program that an argument block cannot carry.
absl::StatusOr<ElementwiseProgram> parse_elementwise(absl::string_view text);

// The class of its requests that are aligned to elements; all sizes are one class.
ProblemClass class_of(const ElementwiseProgram& program);
// Whether it is the program that the class names.
bool is_program_of(const ProblemClass& c, const ElementwiseProgram& program);

}  // namespace lathe
