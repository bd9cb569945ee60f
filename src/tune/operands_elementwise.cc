#include "tune/place.h"
#include "tune/tune_operands.h"

namespace lathe {

absl::Status TuneOperands::make_elementwise(const ProblemClass& c, const Dims& dims, size_t pool_bytes) {
  LATHE_ASSIGN_OR_RETURN(const auto program, program_for(device_, c));
  const lathe_program handle = {program};
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  desc.program = &handle;
  desc.m = dims.m, desc.n = dims.n, desc.batch = dims.batch;
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    const ElementwiseInput& input = program->inputs[i];
    const Shape shape = {input.m ? dims.m : 1, input.n ? dims.n : 1};
    const Placed placed = place(stored(shape.rows, shape.columns, input.along_m), input.along_m, input.dtype,
                                c.alignment, input.batch ? dims.batch : 1);
    desc.inputs[i] = placed.operand;
    if (!input.m) desc.inputs[i].leading_dimension = 0;
    streams_a_ |= input.slot == ElementwiseSlot::kA;
    LATHE_ASSIGN_OR_RETURN(desc.inputs[i].data, input.slot == ElementwiseSlot::kA
                                                    ? allocate_streamed(placed.bytes, pool_bytes, input.dtype)
                                                    : allocate(placed.bytes, input.dtype));
  }
  const Placed d = place({dims.m, dims.n}, false, c.d, c.alignment, dims.batch);
  desc.d = d.operand;
  LATHE_ASSIGN_OR_RETURN(desc.d.data, allocate(d.bytes, c.d));
  desc.dependent_launch = static_cast<lathe_dependent_launch>(c.dependent_launch);
  const absl::Status read =
      read_elementwise(&desc, Purpose::kRun, device_.request_context(), stream_, &request_);
  request_.program = nullptr;  // `handle` is destroyed here; the context keeps the program
  return read;
}

}  // namespace lathe
