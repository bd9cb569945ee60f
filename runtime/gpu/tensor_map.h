// Tensor maps (TMA descriptors), encoded for each launch from its argument block.
#pragma once

#include "core/recipe.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// A recipe's tensor map with its names resolved: offsets into the argument block, the driver's enum values.
struct TensorMapPlan {
  const char* operand = "";
  size_t pointer = 0, leading_dimension = 0, batch_stride = 0;  // offsets
  int64_t element_bytes = 0;
  TensorMapDataType type = kTensorUint8;
  TensorMapSwizzle swizzle = kSwizzleNone;
  Var columns = Var::kK, rows = Var::kM;
  uint32_t box_columns = 0, box_rows = 0;
};
// kInvalidArgument for an operand, a dtype, a box or a swizzle that the hardware has no form of.
absl::StatusOr<TensorMapPlan> plan_tensor_map(const TensorMap& map);

// Writes the map of one launch. The encoding costs the driver a fraction of a microsecond, so each thread
// keeps the ones it made last. kInvalidArgument names the operand and the limit it breaks; kUnavailable where
// the driver encodes none.
absl::Status encode_tensor_map(const Library& library, const TensorMapPlan& plan, const ArgumentBlock& args,
                               const VarValues& sizes, EncodedTensorMap* out);

}  // namespace lathe::gpu
