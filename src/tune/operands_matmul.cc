#include <algorithm>
#include <string>

#include "core/block_scaled.h"
#include "tune/place.h"
#include "tune/tune_operands.h"

namespace lathe {
namespace {

// The scales of an operand whose class has them apart, without data.
lathe_scale scale_of_blocks(DType blocks) {
  lathe_scale s = LATHE_SCALE_INIT;
  for (const ScaledFormat& f : kScaledFormats) {
    if (f.blocks != blocks || f.block != elements_of_scale(blocks)) continue;
    s.dtype = dtype_of(f.scale);
    s.granularity = LATHE_PER_BLOCK;
    s.block_size = f.block;
  }
  return s;
}
lathe_dtype element_of_blocks(DType blocks) {
  for (const ScaledFormat& f : kScaledFormats)
    if (f.blocks == blocks) return dtype_of(f.element);
  return dtype_of(blocks);
}

}  // namespace

absl::Status TuneOperands::make_matmul(const ProblemClass& c, const Dims& dims, size_t pool_bytes) {
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = dims.m, desc.n = dims.n, desc.k = dims.k, desc.batch = dims.batch;
  const auto put = [&](const Placed& placed, lathe_operand* operand) -> absl::Status {
    *operand = placed.operand;
    LATHE_ASSIGN_OR_RETURN(operand->data, allocate(placed.bytes, static_cast<DType>(placed.operand.dtype)));
    return absl::OkStatus();
  };
  const auto matrix = [&](const Shape& shape, bool transposed, DType t) {
    return place(shape, transposed, t, c.alignment, dims.batch);
  };
  LATHE_RETURN_IF_ERROR(put(matrix(stored(dims.m, dims.k, c.trans_a), c.trans_a, c.a), &desc.a));
  const Placed b = place_weight(c, dims);
  desc.b = b.operand;
  LATHE_ASSIGN_OR_RETURN(desc.b.data, allocate_streamed(b.bytes, pool_bytes, c.b));
  LATHE_RETURN_IF_ERROR(put(matrix({dims.m, dims.n}, false, c.d), &desc.d));
  if (c.c != DType::kNone) {
    LATHE_RETURN_IF_ERROR(put(matrix({dims.m, dims.n}, false, c.c), &desc.c));
    desc.epilogue.beta = 1;
  }
  if (c.residual != DType::kNone)
    LATHE_RETURN_IF_ERROR(put(matrix({dims.m, dims.n}, false, c.residual), &desc.epilogue.residual));
  if (c.bias != DType::kNone) {
    LATHE_ASSIGN_OR_RETURN(desc.epilogue.bias, allocate(bytes_of(1, dims.n, c.bias), c.bias));
    desc.epilogue.bias_dtype = dtype_of(c.bias);
  }
  lathe_scale scales[2] = {LATHE_SCALE_INIT, LATHE_SCALE_INIT};
  // All matrices of the batch have the same scales.
  const auto scales_apart = [&](DType blocks, int64_t lines, lathe_operand* operand,
                                lathe_scale* into) -> absl::Status {
    if (!has_scales_apart(blocks)) return absl::OkStatus();
    *into = scale_of_blocks(blocks);
    const size_t count = static_cast<size_t>(lines * (dims.k / into->block_size));
    const auto of = static_cast<DType>(into->dtype);
    LATHE_ASSIGN_OR_RETURN(void* const data, allocate(count * size_of(of), of));
    if (of == DType::kF8E8M0) {
      const std::string powers(count, 123);
      DeviceMemory& memory = device_.driver->memory();
      LATHE_RETURN_IF_ERROR(memory.copy(stream_, data, powers.data(), count, CopyKind::kToDevice));
      LATHE_RETURN_IF_ERROR(memory.synchronize(stream_));
    }
    into->data = data;
    operand->dtype = element_of_blocks(blocks);
    operand->scale = into;
    return absl::OkStatus();
  };
  LATHE_RETURN_IF_ERROR(scales_apart(c.a, dims.m, &desc.a, &scales[0]));
  LATHE_RETURN_IF_ERROR(scales_apart(c.b, dims.n, &desc.b, &scales[1]));
  const auto scale = [&](Scale kind, int64_t channels, lathe_operand* operand,
                         lathe_scale* into) -> absl::Status {
    if (kind == Scale::kNone) return absl::OkStatus();
    LATHE_ASSIGN_OR_RETURN(into->data, allocate(static_cast<size_t>(channels) * 4, DType::kF32));
    into->dtype = LATHE_F32;
    into->granularity = kind == Scale::kPerTensor ? LATHE_PER_TENSOR : LATHE_PER_CHANNEL;
    operand->scale = into;
    return absl::OkStatus();
  };
  LATHE_RETURN_IF_ERROR(scale(c.scale_a, dims.m, &desc.a, &scales[0]));
  LATHE_RETURN_IF_ERROR(scale(c.scale_b, dims.n, &desc.b, &scales[1]));
  const auto zero_points = [&](int64_t count, const void** into) -> absl::Status {
    // Only CPU classes have zero points, so the memory can be written directly.
    LATHE_ASSIGN_OR_RETURN(void* const zeros, allocate(static_cast<size_t>(count) * 4, DType::kI8));
    std::fill_n(static_cast<int32_t*>(zeros), count, 3);
    *into = zeros;
    return absl::OkStatus();
  };
  if (c.zero_a != 0) LATHE_RETURN_IF_ERROR(zero_points(1, &desc.a.zero_point));
  if (c.zero_b != Scale::kNone)
    LATHE_RETURN_IF_ERROR(zero_points(c.zero_b == Scale::kPerTensor ? 1 : dims.n, &desc.b.zero_point));
  desc.epilogue.activation = static_cast<lathe_activation>(c.activation);
  desc.epilogue.combine = static_cast<lathe_combine>(c.combine);
  desc.determinism = static_cast<lathe_determinism>(c.determinism);
  desc.math = static_cast<lathe_math>(c.math);
  desc.dependent_launch = static_cast<lathe_dependent_launch>(c.dependent_launch);
  return read_matmul(&desc, Purpose::kRun, device_.request_context(), stream_, &request_);
}

}  // namespace lathe
