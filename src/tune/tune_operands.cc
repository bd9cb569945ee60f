#include "tune/tune_operands.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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

Request& TuneOperands::next_request() {
  if (first_ == nullptr) return request_;  // an elementwise program without inputs has no streamed operand
  void* const copy = first_ + step_ * next_;
  next_ = next_ + 1 == copies_ ? 0 : next_ + 1;
  (streams_a_ ? request_.args.a : request_.args.b) = copy;
  return request_;
}

absl::Status TuneOperands::synchronize() { return device_.driver->memory().synchronize(stream_); }

}  // namespace lathe
