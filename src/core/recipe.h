// The launch recipe: what the runtime must know to run an artifact, as data that it only interprets.
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

// The half of a plan that is a pure function of the true sizes at launch.
struct LaunchConfig {
  int32_t splits = 1;                   // of K (argmax: of the row), none empty
  int32_t k_chunk = 0;                  // length of every split but the last
  size_t workspace_bytes = 0;           // shared
  size_t scratch_bytes_per_worker = 0;  // CPU only
  size_t counters = 0;                  // GPU only: 32-bit counters
};

// Values a formula may use. kMerge is 1 when splits > 1, else 0: a step with it in its grid runs only for a
// split.
enum class Var : int32_t { kM = 0, kN = 1, kK = 2, kBatch = 3, kSplits = 4, kMerge = 5 };
constexpr int kVarCount = 6;
using VarValues = std::array<int64_t, kVarCount>;

struct Factor {
  Var var = Var::kM;
  int64_t divisor = 1;  // the factor's value is ceil(var / divisor)
};
// coefficient times the product of its factors (their count 0: the constant).
struct Term {
  int64_t coefficient = 1;
  std::vector<Factor> factors;
};
// Sum of terms; empty is 0. Saturates at INT64_MAX instead of overflowing.
using Formula = std::vector<Term>;
int64_t evaluate(const Formula& f, const VarValues& v);
// Short hands: constant(4), product(1, {{Var::kM, 32}}).
Formula constant(int64_t value);
Formula product(int64_t coefficient, std::vector<Factor> factors);

enum class StepKind : int32_t { kCpuTask = 1, kGpuKernel = 2, kHostExtern = 3 };

// A tensor map (TMA descriptor) of one operand, encoded anew for each launch from the argument block:
// dimension 0 runs along the operand's contiguous side, dimension 1 over its rows, dimension 2 over the batch
// (extent 1 where the batch stride is 0). Elements outside read as zero and are not written.
struct TensorMap {
  std::string operand;                    // the block's pointer: "a", "b", "c", "d", "residual"
  DType dtype = DType::kNone;             // of its elements
  Var columns = Var::kK;                  // extent of dimension 0
  Var rows = Var::kM;                     // extent of dimension 1
  int32_t box_columns = 0, box_rows = 0;  // elements of one copy; 1 along the batch
  int32_t swizzle = 0;                    // bytes of the shared-memory swizzle: 0, 32, 64, 128
};

// What an external library is to do in a kHostExtern step: which routine of which library, and the op. Sizes,
// distances and factors are the argument block's.
struct ExternalCallFacts {
  std::string provider;  // core/external.h: "openblas"; "" in other steps
  std::string routine;   // "cblas_sgemm"
  ProblemClass problem;
};

struct Step {
  StepKind kind = StepKind::kCpuTask;
  std::string symbol;
  std::array<Formula, 3> grid;               // workgroups (CPU: tasks) along x, y, z; a zero skips the step
  std::array<int32_t, 3> block = {1, 1, 1};  // GPU workgroup size
  std::array<int32_t, 3> cluster = {1, 1, 1};
  Formula dynamic_shared_memory;                   // bytes
  int32_t argument_bytes = sizeof(ArgumentBlock);  // parameter_bytes(tensor_maps.size())
  std::vector<TensorMap> tensor_maps;              // behind the argument block, in this order
  std::vector<std::string> attributes;  // launch attributes: "pdl"; unknown ones refuse the artifact
  ExternalCallFacts external;           // kHostExtern
};

// A GPU kernel's parameters: the argument block's fields, then its tensor maps of 128 bytes each. Where those
// lie is the assembler's to say: it aligns them to 64 bytes of the constant bank, whose parameters begin at
// 528 on sm_90 and at 896 on sm_100a (ptxas 13.0).
constexpr int32_t kTensorMapBytes = 128;
constexpr int32_t parameter_bytes(size_t tensor_maps) {
  return static_cast<int32_t>(sizeof(ArgumentBlock) + kTensorMapBytes * tensor_maps);
}

struct Recipe {
  static constexpr int32_t kVersion = 4;
  int32_t version = kVersion;
  std::vector<Step> steps;  // run in order; each completes before the next starts
  Formula workspace_bytes;
  Formula scratch_bytes_per_worker;  // CPU
  int32_t k_granularity = 1;         // k_chunk is a multiple of this
  int32_t k_most =
      INT32_MAX;     // argmax: k_chunk is no longer (but for the granularity), however many the rows
  Formula counters;  // GPU: 32-bit counters, zero before the first launch and reset by each
  int32_t pointer_alignment = 1;  // precondition on every operand (Alignment), bytes
};

Json to_json(const Recipe& r);
absl::StatusOr<Recipe> recipe_from_json(const Json& j);

// Normalises a wanted split count (>= 1): chunks of ceil(K / wanted) rounded up to the granularity, and as
// many of them as K needs, so that none is empty; K = 0 gives one empty split. For argmax K is the row
// length, and the rows share the wanted splits out: few rows use the whole device, many are not cut small.
LaunchConfig make_launch_config(const Recipe& r, const ProblemClass& c, const Dims& dims,
                                int32_t wanted_splits);
VarValues var_values(const Dims& dims, const LaunchConfig& l);

}  // namespace lathe
