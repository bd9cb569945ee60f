#include "tune/place.h"
#include "tune/tune_operands.h"

namespace lathe {

absl::Status TuneOperands::make_matmul_argmax(const ProblemClass& c, const Dims& dims, size_t pool_bytes) {
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = dims.m, desc.n = dims.n, desc.k = dims.k;
  const Placed a = place(stored(dims.m, dims.k, c.trans_a), c.trans_a, c.a, c.alignment, 1);
  const Placed b = place_weight(c, dims);
  desc.a = a.operand;
  desc.b = b.operand;
  LATHE_ASSIGN_OR_RETURN(desc.a.data, allocate(a.bytes, c.a));
  LATHE_ASSIGN_OR_RETURN(desc.b.data, allocate_streamed(b.bytes, pool_bytes, c.b));
  if (c.bias != DType::kNone) {
    LATHE_ASSIGN_OR_RETURN(desc.bias, allocate(bytes_of(1, dims.n, c.bias), c.bias));
    desc.bias_dtype = dtype_of(c.bias);
  }
  LATHE_ASSIGN_OR_RETURN(desc.indices, allocate(bytes_of(1, dims.m, c.d), c.d));
  desc.index_dtype = dtype_of(c.d);
  desc.logits_dtype = dtype_of(c.logits);
  if (c.wants_values != 0) {
    LATHE_ASSIGN_OR_RETURN(void* const values, allocate(static_cast<size_t>(dims.m) * 4, DType::kF32));
    desc.values = static_cast<float*>(values);
  }
  desc.determinism = static_cast<lathe_determinism>(c.determinism);
  desc.math = static_cast<lathe_math>(c.math);
  desc.dependent_launch = static_cast<lathe_dependent_launch>(c.dependent_launch);
  return read_matmul_argmax(&desc, Purpose::kRun, device_.request_context(), stream_, &request_);
}

}  // namespace lathe
