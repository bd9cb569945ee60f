// The program of an elementwise op: what its kernel computes for each element of D. It is a JSON text that
// goes to the compiler together with the class. The class, and so the cache key, holds its digest.
//
//   {"d":"f32",
//    "inputs":[{"dims":"bmn","dtype":"bf16"},{"dims":"n","dtype":"f32"}],
//    "nodes":[["arith.extf","f32",0],["arith.mulf","f32",2,1],["number","f32",0.0],["arith.maximumf","f32",3,4]],
//    "yield":5}
//
// Values are numbered: first the inputs, then the nodes. A node may read only values with lower numbers. The
// dims of an input are a subset of the loops b (batch, always first), m and n. Inputs are contiguous along n,
// except those with "nm", which are contiguous along m. A node is one of:
//   [operation, type, value...]  comparisons have their predicate at the end; integer casts and casts from
//                                integers have the operand's type at the end
//   ["number", type, x]          a constant; floats may also be "nan", "inf" and "-inf"
//   ["index", "index", loop]     the index of a loop: 0 is b, 1 is m, 2 is n
// Operations have the semantics of MLIR's arith and math dialects. Every f16 and bf16 node rounds its result.
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
absl::string_view name_of(NodeType t);  // the name in MLIR
constexpr bool is_float(NodeType t) { return t >= NodeType::kF16; }

// How many operands an operation has, and of which types.
enum class NodeSignature {
  kNumber,
  kIndex,
  kFloat1,  // one float of the result's type
  kFloat2,
  kInteger2,
  kWiden,     // float to a wider float
  kNarrow,    // float to a narrower float
  kExtend,    // integer to a wider integer; has the operand's type at the end
  kTruncate,  // integer to a narrower integer
  kFromInteger,
  kIndexCast,
  kSelect,
  kCompareFloats,
  kCompareIntegers,
};

struct ElementwiseNode {
  NodeSignature signature = NodeSignature::kNumber;
  const char* name = "";  // the operation's name in MLIR
  NodeType type = NodeType::kF32;
  std::array<int32_t, 3> values = {0, 0, 0};
  int32_t value_count = 0;
  const char* predicate = "";
  double number = 0;    // kNumber of a float type
  int64_t integer = 0;  // kNumber of any other type; kIndex: the loop
};

// The pointers of the argument block that pass the inputs.
enum class ElementwiseSlot : int32_t { kA = 0, kB = 1, kC = 2, kResidual = 3, kBias = 4 };
constexpr size_t kMostElementwiseInputs = 5;

struct ElementwiseInput {
  DType dtype = DType::kNone;
  bool batch = false, m = false, n = false;
  bool along_m = false;  // dims "nm": contiguous along m
  // Inputs take a, b, c, residual in order. Only with five inputs, the first one with dims "n" takes the bias,
  // which has no strides.
  ElementwiseSlot slot = ElementwiseSlot::kA;
};

struct ElementwiseProgram {
  std::vector<ElementwiseInput> inputs;
  std::vector<ElementwiseNode> nodes;
  int32_t yield = 0;
  DType d = DType::kNone;
  std::string text;  // canonical: the same for every spelling of one program
  uint64_t digest_lo = 0, digest_hi = 0;

  NodeType type_of(int32_t value) const;
};

// Accepts any bytes as input. kInvalidArgument names the node or input and the defect; kUnimplemented if the
// argument block has no free pointer for an input.
absl::StatusOr<ElementwiseProgram> parse_elementwise(absl::string_view text);

// The class of the program's requests with Alignment::kElement. It covers all sizes.
ProblemClass class_of(const ElementwiseProgram& program);
// Whether the class has the digest of this program.
bool is_program_of(const ProblemClass& c, const ElementwiseProgram& program);

}  // namespace lathe
