// The launch recipe: how to run an artifact. The compiler writes it as data; the runtime only interprets it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/args.h"
#include "core/json.h"
#include "core/problem.h"

namespace lathe {

// The part of a plan that depends on the true sizes, computed at each launch.
struct LaunchConfig {
  int32_t splits = 1;                   // splits of K (argmax: of the row); none is empty
  int32_t k_chunk = 0;                  // length of every split but the last
  size_t workspace_bytes = 0;           // shared by the whole launch
  size_t scratch_bytes_per_worker = 0;  // CPU only
  size_t counters = 0;                  // GPU only: number of 32-bit counters
};

// The variables of a formula. kMerge is 1 if splits > 1 and 0 otherwise. A merge step has it as a factor of
// its grid, so that it runs only after a split.
enum class Var : int32_t { kM = 0, kN = 1, kK = 2, kBatch = 3, kSplits = 4, kMerge = 5 };
constexpr int kVarCount = 6;
using VarValues = std::array<int64_t, kVarCount>;

struct Factor {
  Var var = Var::kM;
  int64_t divisor = 1;  // the factor's value is ceil(var / divisor)
};
// The coefficient times the product of the factors; a constant if there are no factors.
struct Term {
  int64_t coefficient = 1;
  std::vector<Factor> factors;
};
// The sum of the terms; 0 if there are none. evaluate() saturates at INT64_MAX instead of overflowing.
using Formula = std::vector<Term>;
int64_t evaluate(const Formula& f, const VarValues& v);
// Formulas of one term: constant(4), product(1, {{Var::kM, 32}}).
Formula constant(int64_t value);
Formula product(int64_t coefficient, std::vector<Factor> factors);

enum class StepKind : int32_t { kCpuTask = 1, kGpuKernel = 2, kHostExtern = 3 };

// A tensor map (TMA descriptor) of one operand, encoded at each launch from the argument block. Dimension 0 is
// the operand's contiguous dimension, dimension 1 its rows, dimension 2 the batch (extent 1 if the batch
// stride is 0). Elements outside the extents read as zero and are not written.
struct TensorMap {
  std::string operand;                    // a pointer of the argument block: "a", "b", "c", "d", "residual"
  DType dtype = DType::kNone;             // element type; coordinates of f4e2m1 along the columns count pairs
  Var columns = Var::kK;                  // extent of dimension 0
  Var rows = Var::kM;                     // extent of dimension 1
  int32_t box_columns = 0, box_rows = 0;  // elements per copy; 1 along the batch
  int32_t swizzle = 0;                    // shared-memory swizzle in bytes: 0, 32, 64, 128
  int32_t shared_rows = 0;                // 1: the matrices share the rows; each has rows / batch
};

// The call of an external library in a kHostExtern step. Sizes, strides, alpha and beta come from the argument
// block.
struct ExternalCallFacts {
  std::string provider;  // a name from core/external.h, such as "openblas"; empty in other steps
  std::string routine;   // such as "cblas_sgemm"
  ProblemClass problem;
};

struct Step {
  StepKind kind = StepKind::kCpuTask;
  std::string symbol;
  std::array<Formula, 3> grid;               // workgroups (CPU: tasks) along x, y, z; 0 skips the step
  std::array<int32_t, 3> block = {1, 1, 1};  // GPU workgroup size
  std::array<int32_t, 3> cluster = {1, 1, 1};
  Formula dynamic_shared_memory;                   // bytes
  int32_t argument_bytes = sizeof(ArgumentBlock);  // parameter_bytes(tensor_maps.size())
  std::vector<TensorMap> tensor_maps;              // parameters after the argument block, in this order
  std::vector<std::string> attributes;  // launch attributes: "pdl"; an unknown one makes the artifact invalid
  ExternalCallFacts external;           // kHostExtern only
};

// The size of a GPU kernel's parameters: the fields of the argument block, then tensor maps of 128 bytes each.
// Only the assembler knows the offsets of the maps: it aligns them to 64 bytes in the constant bank, and the
// parameters start at different offsets on different architectures.
constexpr int32_t kTensorMapBytes = 128;
constexpr int32_t parameter_bytes(size_t tensor_maps) {
  return static_cast<int32_t>(sizeof(ArgumentBlock) + kTensorMapBytes * tensor_maps);
}

struct Recipe {
  static constexpr int32_t kVersion = 5;
  int32_t version = kVersion;
  std::vector<Step> steps;  // run in order; each completes before the next starts
  Formula workspace_bytes;
  Formula scratch_bytes_per_worker;  // CPU
  int32_t k_granularity = 1;         // k_chunk is a multiple of this
  // argmax: the longest k_chunk before it is rounded up to k_granularity. Longer rows are always split.
  int32_t k_most = INT32_MAX;
  Formula counters;  // GPU: number of 32-bit counters; zero before the first launch, reset by every launch
  int32_t pointer_alignment = 1;  // required alignment of every operand in bytes (see Alignment)
};

Json to_json(const Recipe& r);
absl::StatusOr<Recipe> recipe_from_json(const Json& j);

// Computes the launch config. The chunk length is ceil(K / wanted_splits) rounded up to the granularity; the
// number of splits is ceil(K / chunk), so that no split is empty. K = 0 gives one empty split. For argmax K is
// the row length and wanted_splits is shared by all rows: only a few rows are cut into many splits.
LaunchConfig make_launch_config(const Recipe& r, const ProblemClass& c, const Dims& dims,
                                int32_t wanted_splits);
VarValues var_values(const Dims& dims, const LaunchConfig& l);

}  // namespace lathe
