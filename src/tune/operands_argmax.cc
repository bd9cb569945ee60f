#include "tune/place.h"
#include "tune/tune_operands.h"

namespace lathe {

absl::Status TuneOperands::make_argmax(const ProblemClass& c, const Dims& dims, size_t pool_bytes) {
  lathe_argmax_desc desc = LATHE_ARGMAX_DESC_INIT;
  desc.rows = dims.m, desc.n = dims.n;
  const Placed x = place({dims.m, dims.n}, false, c.a, c.alignment, 1);
  desc.x = x.operand;
  LATHE_ASSIGN_OR_RETURN(desc.x.data, allocate_streamed(x.bytes, pool_bytes, c.a));
  streams_a_ = true;
  LATHE_ASSIGN_OR_RETURN(desc.indices, allocate(bytes_of(1, dims.m, c.d), c.d));
  desc.index_dtype = dtype_of(c.d);
  if (c.wants_values != 0) {
    LATHE_ASSIGN_OR_RETURN(void* const values, allocate(static_cast<size_t>(dims.m) * 4, DType::kF32));
    desc.values = static_cast<float*>(values);
  }
  desc.determinism = static_cast<lathe_determinism>(c.determinism);
  desc.dependent_launch = static_cast<lathe_dependent_launch>(c.dependent_launch);
  return read_argmax(&desc, Purpose::kRun, device_.request_context(), stream_, &request_);
}

}  // namespace lathe
