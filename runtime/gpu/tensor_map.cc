#include "runtime/gpu/tensor_map.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/thread_owned.h"

namespace lathe::gpu {
namespace {

struct OperandRow {
  const char* name;
  size_t pointer, leading_dimension, batch_stride;
};
constexpr OperandRow kOperands[] = {
    {"a", offsetof(ArgumentBlock, a), offsetof(ArgumentBlock, lda), offsetof(ArgumentBlock, stride_a)},
    {"b", offsetof(ArgumentBlock, b), offsetof(ArgumentBlock, ldb), offsetof(ArgumentBlock, stride_b)},
    {"c", offsetof(ArgumentBlock, c), offsetof(ArgumentBlock, ldc), offsetof(ArgumentBlock, stride_c)},
    {"d", offsetof(ArgumentBlock, d), offsetof(ArgumentBlock, ldd), offsetof(ArgumentBlock, stride_d)},
    {"residual", offsetof(ArgumentBlock, residual), offsetof(ArgumentBlock, ldr),
     offsetof(ArgumentBlock, stride_r)},
};

absl::StatusOr<TensorMapDataType> data_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kTensorFloat32;
    case DType::kF16: return kTensorFloat16;
    case DType::kBF16: return kTensorBfloat16;
    case DType::kI32: return kTensorInt32;
    case DType::kI64: return kTensorInt64;
    default: break;
  }
  if (size_of(dtype) == 1) return kTensorUint8;  // also of pairs of 4-bit elements
  return absl::InvalidArgumentError(absl::StrCat("a tensor map cannot have elements of ", name_of(dtype)));
}

// Everything that the encoded map depends on.
struct Inputs {
  const void* data;
  uint64_t columns, rows, batch;
  uint64_t row_bytes, batch_bytes;
  uint32_t box_columns, box_rows;
  int32_t type, swizzle;

  bool operator==(const Inputs& o) const { return std::memcmp(this, &o, sizeof *this) == 0; }
  size_t hash() const {
    const uint64_t h =
        reinterpret_cast<uint64_t>(data) >> 4 ^ columns * 3 ^ rows * 5 ^ box_columns ^ box_rows * 7;
    return h * 0x9e3779b97f4a7c15u >> 40;
  }
};
static_assert(sizeof(Inputs) == 64, "Inputs is compared bytewise, so it must have no padding");

// A direct-mapped cache, large enough for the weights of a model: 100 KB in each thread that launches with
// tensor maps.
struct Memo {
  static constexpr size_t kEntries = 512;
  Inputs inputs[kEntries] = {};  // an entry with null data is empty
  EncodedTensorMap maps[kEntries];
};

template <typename T>
T field(const ArgumentBlock& args, size_t offset) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(&args) + offset, sizeof value);
  return value;
}

// Names the hardware limit that the map breaks, as in the reference of cuTensorMapEncodeTiled.
[[gnu::cold]] absl::Status explain(const TensorMapPlan& plan, const Inputs& in) {
  const auto broken = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("tensor map of ", plan.operand, ": ", what));
  };
  constexpr uint64_t kMaxExtent = uint64_t{1} << 32, kMaxStride = uint64_t{1} << 40;
  if (in.data == nullptr) return broken("the pointer is NULL");
  if (reinterpret_cast<uintptr_t>(in.data) % 16 != 0) return broken("the pointer is not aligned to 16 bytes");
  for (uint64_t extent : {in.columns, in.rows, in.batch})
    if (extent == 0 || extent > kMaxExtent)
      return broken(absl::StrCat("an extent of ", extent, " is not in [1, 2^32]"));
  for (uint64_t stride : {in.row_bytes, in.batch_bytes}) {
    if (stride % 16 != 0)
      return broken(absl::StrCat("a stride of ", stride, " bytes is not a multiple of 16"));
    if (stride >= kMaxStride) return broken(absl::StrCat("a stride of ", stride, " bytes is not below 2^40"));
  }
  return absl::OkStatus();
}

absl::Status encode(const Library& library, const TensorMapPlan& plan, const Inputs& in,
                    EncodedTensorMap* out) {
  LATHE_RETURN_IF_ERROR(explain(plan, in));
  if (library.call().encode_tensor_map == nullptr)
    return absl::UnavailableError("the driver is older than CUDA 12.0, which tensor maps need");
  const uint64_t extents[] = {in.columns, in.rows, in.batch};
  const uint64_t strides[] = {in.row_bytes, in.batch_bytes};
  const uint32_t box[] = {in.box_columns, in.box_rows, 1}, steps[] = {1, 1, 1};
  const int result =
      library.call().encode_tensor_map(out, in.type, 3, const_cast<void*>(in.data), extents, strides, box,
                                       steps, kInterleaveNone, in.swizzle, kL2Promotion256, kFillZero);
  if (result == kSuccess) return absl::OkStatus();
  return library.error(result, absl::StrCat("tensor map of ", plan.operand));
}

}  // namespace

absl::StatusOr<TensorMapPlan> plan_tensor_map(const TensorMap& map) {
  TensorMapPlan plan;
  for (const OperandRow& row : kOperands) {
    if (map.operand != row.name) continue;
    plan.operand = row.name;
    plan.pointer = row.pointer;
    plan.leading_dimension = row.leading_dimension;
    plan.batch_stride = row.batch_stride;
  }
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("tensor map of ", map.operand, ": ", why));
  };
  if (*plan.operand == 0) return refuse("no such operand");
  LATHE_ASSIGN_OR_RETURN(plan.type, data_type(map.dtype));
  plan.element_bytes = static_cast<int64_t>(size_of(map.dtype));
  plan.elements = block_elements(map.dtype);
  const int64_t box_row_bytes = map.box_columns * plan.element_bytes / plan.elements;
  if (map.box_columns < 1 || map.box_columns > 256 || map.box_rows < 1 || map.box_rows > 256)
    return refuse(
        absl::StrCat("a box of ", map.box_columns, " by ", map.box_rows, " is not within 256 by 256"));
  if (box_row_bytes % 16 != 0)
    return refuse(absl::StrCat("a box's row of ", box_row_bytes, " bytes is not a multiple of 16"));
  switch (map.swizzle) {
    case 0: plan.swizzle = kSwizzleNone; break;
    case 32: plan.swizzle = kSwizzle32; break;
    case 64: plan.swizzle = kSwizzle64; break;
    case 128: plan.swizzle = kSwizzle128; break;
    default: return refuse(absl::StrCat("a swizzle of ", map.swizzle, " bytes is not 0, 32, 64 or 128"));
  }
  if (map.swizzle != 0 && box_row_bytes > map.swizzle)
    return refuse(
        absl::StrCat("a box's row of ", box_row_bytes, " bytes exceeds the swizzle of ", map.swizzle));
  plan.columns = map.columns;
  plan.rows = map.rows;
  plan.shared_rows = map.shared_rows != 0;
  plan.box_columns = static_cast<uint32_t>(map.box_columns / plan.elements);
  plan.box_rows = static_cast<uint32_t>(map.box_rows);
  return plan;
}

absl::Status encode_tensor_map(const Library& library, const TensorMapPlan& plan, const ArgumentBlock& args,
                               const VarValues& sizes, EncodedTensorMap* out) {
  Inputs in;
  in.data = field<void*>(args, plan.pointer);
  in.columns = static_cast<uint64_t>(sizes[static_cast<size_t>(plan.columns)] / plan.elements);
  in.rows = static_cast<uint64_t>(sizes[static_cast<size_t>(plan.rows)]);
  in.row_bytes = static_cast<uint64_t>(field<int64_t>(args, plan.leading_dimension) * plan.element_bytes /
                                       plan.elements);
  const int64_t stride = field<int64_t>(args, plan.batch_stride);
  const int64_t batch = sizes[static_cast<size_t>(Var::kBatch)];
  if (plan.shared_rows) in.rows /= static_cast<uint64_t>(std::max<int64_t>(batch, 1));
  const bool one = stride == 0 || batch <= 1;
  in.batch = one ? 1 : static_cast<uint64_t>(batch);
  // A single matrix does not use its batch stride, but the value must be legal.
  in.batch_bytes =
      one ? in.rows * in.row_bytes : static_cast<uint64_t>(stride * plan.element_bytes / plan.elements);
  in.box_columns = plan.box_columns;
  in.box_rows = plan.box_rows;
  in.type = plan.type;
  in.swizzle = plan.swizzle;

  Memo* const memo = of_this_thread<Memo>();
  const size_t at = in.hash() % Memo::kEntries;
  if (memo != nullptr && memo->inputs[at] == in && in.data != nullptr) {
    *out = memo->maps[at];
    return absl::OkStatus();
  }
  LATHE_RETURN_IF_ERROR(encode(library, plan, in, out));
  if (memo == nullptr) return absl::OkStatus();  // there is no memory for a cache, so every launch encodes
  memo->inputs[at] = in;
  memo->maps[at] = *out;
  return absl::OkStatus();
}

}  // namespace lathe::gpu
