// Tensor maps (TMA descriptors), which each launch encodes from its argument block.
#pragma once

#include "core/recipe.h"
#include "runtime/gpu/library.h"

namespace lathe::gpu {

// A recipe's tensor map with its names resolved to offsets in the argument block and enum values of the
// driver.
struct TensorMapPlan {
  const char* operand = "";
  size_t pointer = 0, leading_dimension = 0, batch_stride = 0;  // offsets in the block
  int64_t element_bytes = 0, elements = 1;  // bytes of an element, or of a pair of 4-bit elements
  TensorMapDataType type = kTensorUint8;
  TensorMapSwizzle swizzle = kSwizzleNone;
  Var columns = Var::kK, rows = Var::kM;
  bool shared_rows = false;
  uint32_t box_columns = 0, box_rows = 0;
};
// kInvalidArgument: the hardware does not support the operand, dtype, box or swizzle.
absl::StatusOr<TensorMapPlan> plan_tensor_map(const TensorMap& map);

// Writes the map of one launch. Encoding costs a fraction of a microsecond, so each thread caches its latest
// maps. kInvalidArgument names the operand and the limit that it breaks. kUnavailable: the driver is too old.
absl::Status encode_tensor_map(const Library& library, const TensorMapPlan& plan, const ArgumentBlock& args,
                               const VarValues& sizes, EncodedTensorMap* out);

}  // namespace lathe::gpu
