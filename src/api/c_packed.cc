// C functions: packed weights.
#include "absl/strings/str_cat.h"
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "core/packed.h"
#include "dispatch/device.h"
#include "request/request.h"
#include "request/request_u4.h"

using lathe::at_boundary;
using lathe::null_argument;

namespace {

struct Weight {
  lathe::Request request;
  int64_t matrices = 1;  // number of stored matrices
  size_t bytes = 0;      // of the whole packed weight

  const lathe::ProblemClass& problem() const { return request.key.problem; }
  lathe::PackedLayout layout() const { return lathe::packed_layout_of(problem().n, problem().b); }
};

// The number of bytes of the whole packed weight.
absl::Status measure(const lathe_matmul_desc& desc, Weight* out) {
  const lathe::ProblemClass& c = out->problem();
  out->matrices = desc.b.batch_stride == 0 ? std::min<int64_t>(desc.batch, 1) : desc.batch;
  const int64_t one =
      lathe::packed_bytes(out->layout(), c.k, c.n, c.b);  // no overflow: K and N are below 2^31
  if (__builtin_mul_overflow(static_cast<size_t>(one), static_cast<size_t>(out->matrices), &out->bytes))
    return absl::InvalidArgumentError("packed, b spans more than 2^64 bytes");
  return absl::OkStatus();
}

// Reads a weight of AWQ or GPTQ, as the request with the packed one.
absl::Status read_u4_weight(const lathe_device& device, const lathe_matmul_desc& desc, Weight* out) {
  const lathe_matmul_desc packed = lathe::packed_u4_product(desc, nullptr);
  LATHE_RETURN_IF_ERROR(
      lathe::read_matmul(&packed, lathe::Purpose::kWarm, device.request_context(), nullptr, &out->request));
  absl::Status status = lathe::check_u4_weight(desc, /*with_data=*/false);
  if (status.ok()) status = measure(desc, out);
  return status.ok() ? status : lathe::in_request(describe(out->request), device.name, status);
}

// Reads the unpacked weight that `desc` describes.
absl::Status read_weight(const lathe_device& device, const lathe_matmul_desc* desc, Weight* out) {
  if (desc != nullptr && desc->struct_size == sizeof *desc && lathe::is_u4_weight(*desc))
    return read_u4_weight(device, *desc, out);
  LATHE_RETURN_IF_ERROR(
      lathe::read_matmul(desc, lathe::Purpose::kWarm, device.request_context(), nullptr, &out->request));
  const lathe::ProblemClass& c = out->problem();
  const auto refuse = [&](const absl::Status& cause) {
    return lathe::in_request(describe(out->request), device.name, cause);
  };
  if (desc->b.packed_layout != 0) return refuse(absl::InvalidArgumentError("b is packed already"));
  if (!device.is_cpu || !lathe::is_packable(c.b))
    return refuse(absl::UnimplementedError(
        absl::StrCat("packed weights are supported only for ", lathe::packable_names(), " on the CPU")));
  if (const std::string why = lathe::packing_refusal(c, device.facts.target); !why.empty())
    return refuse(absl::UnimplementedError(why));
  if (c.zero_a != 0)
    return refuse(absl::UnimplementedError("packed weights cannot be used if A has a zero point"));
  const absl::Status status = measure(*desc, out);
  return status.ok() ? status : refuse(status);
}

absl::Status pack_u4(const lathe_matmul_desc& desc, const Weight& w, void* packed) {
  LATHE_RETURN_IF_ERROR(lathe::check_u4_weight(desc, /*with_data=*/true));
  const lathe::Region to = lathe::line_at(packed, static_cast<int64_t>(w.bytes));
  for (const auto& [name, region] : lathe::u4_regions(desc, w.matrices))
    if (!known_disjoint(to, region))
      return absl::InvalidArgumentError(absl::StrCat("packed overlaps ", name));
  const size_t step = w.bytes / static_cast<size_t>(w.matrices);
  for (int64_t i = 0; i < w.matrices; ++i)
    lathe::pack_u4_groups(lathe::u4_matrix(desc, i),
                          static_cast<char*>(packed) + static_cast<size_t>(i) * step);
  return absl::OkStatus();
}

absl::Status pack(const lathe_matmul_desc& desc, const Weight& w, uint32_t layout, void* packed,
                  size_t bytes) {
  const lathe::ProblemClass& c = w.problem();
  LATHE_ASSIGN_OR_RETURN(const lathe::PackedLayout packed_layout, lathe::packed_layout_with_id(layout, c.b));
  if (packed_layout != w.layout())
    return absl::InvalidArgumentError(
        absl::StrCat("packed_layout 0x", absl::Hex(layout), " is not the layout for ", c.n,
                     " columns: take the one that lathe_packed_layout returns"));
  if (bytes != w.bytes)
    return absl::InvalidArgumentError(absl::StrCat("packed b takes ", w.bytes, " bytes, not ", bytes));
  if (bytes == 0) return absl::OkStatus();
  if (desc.b.data == nullptr) return absl::InvalidArgumentError("b is NULL");
  if (packed == nullptr) return absl::InvalidArgumentError("packed is NULL");
  if (lathe::is_u4_weight(desc)) return pack_u4(desc, w, packed);
  lathe::Region from{};
  int64_t leading = 0, stride = 0;
  absl::Status why;
  const lathe::Placement placement{&leading, &stride, &from};
  if (!(is_blocks(c.b) ? place_blocks(desc.b, {1, c.n, c.k, w.matrices}, c.b, placement, &why)
                       : place_operand(lathe::kOperandB, desc.b, {w.matrices, c.k, c.n}, placement, &why)))
    return why;
  if (!known_disjoint(lathe::line_at(packed, static_cast<int64_t>(bytes)), from))
    return absl::InvalidArgumentError("packed overlaps b");
  const size_t step = bytes / static_cast<size_t>(w.matrices);
  for (int64_t i = 0; i < w.matrices; ++i) {
    lathe::PackedSource source{static_cast<const char*>(desc.b.data) + i * from.stride, c.k, c.n, leading, 1};
    if (c.trans_b != 0) std::swap(source.row, source.column);
    lathe::pack(packed_layout, source, c.b, static_cast<char*>(packed) + static_cast<size_t>(i) * step);
  }
  return absl::OkStatus();
}

}  // namespace

extern "C" {

lathe_status lathe_packed_layout(lathe_device* device, const lathe_matmul_desc* desc, uint32_t* layout,
                                 size_t* bytes) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_packed_layout", "device");
    if (layout == nullptr) return null_argument("lathe_packed_layout", "layout");
    if (bytes == nullptr) return null_argument("lathe_packed_layout", "bytes");
    Weight weight;
    LATHE_RETURN_IF_ERROR(read_weight(*device, desc, &weight));
    *layout = lathe::packed_layout_id(weight.layout(), weight.problem().b);
    *bytes = weight.bytes;
    return absl::OkStatus();
  });
}

lathe_status lathe_pack_weights(lathe_device* device, const lathe_matmul_desc* desc, uint32_t layout,
                                void* packed, size_t bytes) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_pack_weights", "device");
    Weight weight;
    LATHE_RETURN_IF_ERROR(read_weight(*device, desc, &weight));
    const absl::Status status = pack(*desc, weight, layout, packed, bytes);
    return status.ok() ? status : lathe::in_request(describe(weight.request), device->name, status);
  });
}

}  // extern "C"
