#include "tune/tune_operands.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/packed.h"

namespace lathe {
namespace {

constexpr int64_t kOpenRows = 1024, kArgmaxRows = 16, kOpenRowLength = 131072, kElementwiseRow = 4096;
constexpr size_t kAlignment = 256;
constexpr size_t kMostCopies = 1 << 16;

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Small random numbers without NaN, infinities and denormals. Zeros or repeated numbers would need less power than a
// model's weights, so a GPU would run faster with them.
std::string pattern(DType of, size_t bytes) {
  std::string text(bytes, '\0');
  uint64_t state = 0x9e3779b97f4a7c15;
  const auto random = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 32);
  };
  const auto put = [&](size_t at, const void* from, size_t size) {
    if (at + size <= bytes) std::memcpy(&text[at], from, size);
  };
  // Scales are 1/16 (E8M0: 2^-4); everything else in a block is random bytes.
  const auto put_block = [&](size_t at, const DTypeRow& format) {
    const auto size = static_cast<size_t>(format.bytes), scales_at = static_cast<size_t>(format.scales_at),
               scales_end = scales_at + 2 * static_cast<size_t>(format.scales);
    for (size_t j = scales_at == 0 ? scales_end : 0; j < size; j += 4) {
      const uint32_t numbers = random();
      put(at + j, &numbers, std::min<size_t>(4, size - j));
    }
    const uint16_t scale = 0x2c00;  // f16 of 1/16
    for (size_t j = scales_at; j < scales_end; j += 2) put(at + j, &scale, 2);
    const uint8_t power = 127 - 4;
    if (format.scales == 0) put(at, &power, 1);
  };
  switch (of) {
    case DType::kF32:
      for (size_t i = 0; i < bytes; i += 4) {
        const float x = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f + 0x1p-40f;
        put(i, &x, 4);
      }
      break;
    case DType::kF16:
    case DType::kBF16:
      // A random sign and mantissa, and a magnitude from 1/4 to 2.
      for (size_t i = 0; i < bytes; i += 2) {
        const uint32_t r = random();
        const uint16_t x = of == DType::kF16
                               ? static_cast<uint16_t>((r & 0x83ff) | (13 + (r >> 16) % 3) << 10)
                               : static_cast<uint16_t>((r & 0x807f) | (125 + (r >> 16) % 3) << 7);
        put(i, &x, 2);
      }
      break;
    default:
      if (is_blocks(of)) {
        for (size_t i = 0; i < bytes; i += size_of(of)) put_block(i, row_of(of));
        break;
      }
      // Random bytes. For fp8 the top bit of the exponent is 0 and the next is 1, which excludes NaN and denormals.
      for (size_t i = 0; i < bytes; ++i) {
        uint32_t r = random();
        if (is_f8(of)) r = (r & 0xbf) | 0x20;
        text[i] = static_cast<char>(r);
      }
  }
  return text;
}

lathe_dtype dtype_of(DType t) { return static_cast<lathe_dtype>(t); }

// The row pitch, in elements, of a matrix with this number of columns, for the alignment of the class.
int64_t pitch_of(int64_t columns, DType t, Alignment alignment) {
  if (alignment != Alignment::k16 || is_blocks(t)) return columns;
  const auto elements = static_cast<int64_t>(16 / std::min<size_t>(16, size_of(t)));
  return (columns + elements - 1) / elements * elements;
}

size_t bytes_of(int64_t rows, int64_t pitch, DType t) {
  return static_cast<size_t>(rows) * static_cast<size_t>(pitch / block_elements(t)) * size_of(t);
}

// The shape of a matrix as it is stored.
struct Shape {
  int64_t rows = 0, columns = 0;
};
Shape stored(int64_t rows, int64_t columns, bool transposed) {
  return transposed ? Shape{columns, rows} : Shape{rows, columns};
}

struct Placed {
  lathe_operand operand = LATHE_OPERAND_INIT;
  size_t bytes = 0;  // size of the whole batch
};
Placed place(const Shape& shape, bool transposed, DType t, Alignment alignment, int64_t batch) {
  Placed p;
  const int64_t pitch = pitch_of(shape.columns, t, alignment);
  p.operand.dtype = dtype_of(t);
  p.operand.layout = transposed ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  p.operand.leading_dimension = pitch;
  p.operand.batch_stride = batch > 1 ? shape.rows * pitch : 0;
  p.bytes = bytes_of(shape.rows * batch, pitch, t);
  return p;
}
// The packed B.
Placed place_packed(const ProblemClass& c, int64_t batch) {
  Placed p;
  const int64_t elements = packed_elements(kColumns16, c.k, c.n, c.b);
  p.operand.dtype = dtype_of(c.b);
  p.operand.packed_layout = packed_layout_id(static_cast<PackedLayout>(c.packed_b), c.b);
  p.operand.batch_stride = batch > 1 ? elements : 0;
  p.bytes = static_cast<size_t>(elements * batch) * size_of(c.b);
  return p;
}

}  // namespace

Dims measured_dims(const ProblemClass& c) {
  if (has_row_lengths(c.op))
    return {kArgmaxRows, c.row_hi == Bucket::kOpenEnd ? kOpenRowLength : c.row_hi, 0, 1};
  if (has_program(c.op)) return {kOpenRows, kElementwiseRow, 0, 1};
  return {c.m_hi == Bucket::kOpenEnd ? std::max(c.m_lo, kOpenRows) : c.m_hi, c.n, c.k, 1};
}

absl::StatusOr<std::unique_ptr<TuneOperands>> TuneOperands::make(lathe_device& device,
                                                                 const ProblemClass& problem,
                                                                 const Dims& dims, size_t pool_bytes) {
  std::unique_ptr<TuneOperands> operands(new TuneOperands(device));
  LATHE_RETURN_IF_ERROR(operands->fill(problem, dims, pool_bytes));
  return operands;
}

TuneOperands::~TuneOperands() {
  DeviceMemory& memory = device_.driver->memory();
  if (stream_ != nullptr) {
    (void)memory.synchronize(stream_);
    (void)memory.destroy_stream(stream_);
  }
  for (void* block : memory_) (void)memory.release(block);
}

absl::Status TuneOperands::fill(const ProblemClass& problem, const Dims& dims, size_t pool_bytes) {
  LATHE_ASSIGN_OR_RETURN(stream_, device_.driver->memory().create_stream());
  memory_.reserve(16);
  switch (problem.op) {
#define LATHE_MAKE(op, value, name, rows, traits) \
  case Op::op: LATHE_RETURN_IF_ERROR(make_##name(problem, dims, pool_bytes)); break;
    LATHE_OPS(LATHE_MAKE)
#undef LATHE_MAKE
  }
  // The operands may be better aligned than the class requires, so only the alignment of the classes may differ.
  const ProblemClass& read = request_.key.problem;
  if (!(with_alignment(read, problem.alignment, device_.is_cpu) ==
        with_alignment(problem, problem.alignment, device_.is_cpu)))
    return absl::InternalError("tuning: the request made for the class belongs to another class");
  request_.key.problem = problem;
  return synchronize();
}

absl::StatusOr<void*> TuneOperands::allocate(size_t bytes, DType of) {
  DeviceMemory& memory = device_.driver->memory();
  const size_t size = rounded(std::max<size_t>(bytes, 1), kAlignment);
  LATHE_ASSIGN_OR_RETURN(void* const block, memory.allocate(size));
  memory_.push_back(block);  // cannot fail: the memory is reserved
  const std::string numbers = pattern(of, std::min<size_t>(size, rounded(size_t{1} << 20, size_of(of))));
  for (size_t at = 0; at < size; at += numbers.size())
    LATHE_RETURN_IF_ERROR(memory.copy(stream_, static_cast<char*>(block) + at, numbers.data(),
                                      std::min(numbers.size(), size - at), CopyKind::kToDevice));
  // `numbers` is destroyed at the end of this function, so wait for the copies.
  LATHE_RETURN_IF_ERROR(memory.synchronize(stream_));
  return block;
}

absl::StatusOr<void*> TuneOperands::allocate_streamed(size_t bytes, size_t pool_bytes, DType of) {
  // The step is a multiple of the dtype's block too, so that each copy starts with a whole block.
  step_ = rounded(rounded(std::max<size_t>(bytes, 1), kAlignment), kAlignment * size_of(of));
  copies_ = std::clamp<size_t>(pool_bytes / step_, 1, kMostCopies);
  LATHE_ASSIGN_OR_RETURN(void* const pool, allocate(step_ * copies_, of));
  first_ = static_cast<char*>(pool);
  return pool;
}

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
  const Placed b = c.packed_b != kNotPacked ? place_packed(c, dims.batch)
                                            : matrix(stored(dims.k, dims.n, c.trans_b), c.trans_b, c.b);
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
  desc.determinism = static_cast<lathe_determinism>(c.determinism);
  desc.math = static_cast<lathe_math>(c.math);
  desc.dependent_launch = static_cast<lathe_dependent_launch>(c.dependent_launch);
  return read_matmul(&desc, Purpose::kRun, device_.request_context(), stream_, &request_);
}

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

absl::Status TuneOperands::make_matmul_argmax(const ProblemClass& c, const Dims& dims, size_t pool_bytes) {
  lathe_matmul_argmax_desc desc = LATHE_MATMUL_ARGMAX_DESC_INIT;
  desc.m = dims.m, desc.n = dims.n, desc.k = dims.k;
  const Placed a = place(stored(dims.m, dims.k, c.trans_a), c.trans_a, c.a, c.alignment, 1);
  const Placed b = place(stored(dims.k, dims.n, c.trans_b), c.trans_b, c.b, c.alignment, 1);
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

Request& TuneOperands::next_request() {
  if (first_ == nullptr) return request_;  // an elementwise program without inputs has no streamed operand
  void* const copy = first_ + step_ * next_;
  next_ = next_ + 1 == copies_ ? 0 : next_ + 1;
  (streams_a_ ? request_.args.a : request_.args.b) = copy;
  return request_;
}

absl::Status TuneOperands::synchronize() { return device_.driver->memory().synchronize(stream_); }

}  // namespace lathe
