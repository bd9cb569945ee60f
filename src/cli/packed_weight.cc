#include "cli/packed_weight.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "reference/operand.h"

namespace lathe::cli {

lathe_matmul_desc product_of(const lathe_matmul_argmax_desc& desc) {
  lathe_matmul_desc product = LATHE_MATMUL_DESC_INIT;
  product.m = desc.m, product.n = desc.n, product.k = desc.k;
  product.a = desc.a, product.b = desc.b;
  product.d.dtype = desc.logits_dtype;
  product.determinism = desc.determinism;
  product.math = desc.math;
  return product;
}

lathe_matmul_desc product_of(const lathe_grouped_matmul_desc& desc) {
  lathe_matmul_desc product = LATHE_MATMUL_DESC_INIT;
  product.m = 1;
  product.n = desc.n;
  product.k = desc.k;
  product.batch = desc.groups;
  product.a = desc.a;
  product.b = desc.b;
  product.d = desc.d;
  product.a.batch_stride = 0;
  product.d.leading_dimension = 0;
  product.d.batch_stride = desc.n;
  product.determinism = desc.determinism;
  product.math = desc.math;
  return product;
}

lathe_status describe_packed(lathe_device* device, const lathe_matmul_desc& product, lathe_operand* b,
                             size_t* bytes) {
  uint32_t layout = 0;
  *b = product.b;
  const lathe_status status = lathe_packed_layout(device, &product, &layout, bytes);
  if (status != LATHE_OK) return status;
  const int64_t matrices = std::max<int64_t>(product.batch, 1);
  if (b->batch_stride != 0)
    b->batch_stride = static_cast<int64_t>(*bytes / reference::bytes_of(b->dtype)) / matrices *
                      reference::block_elements(b->dtype);
  b->data = nullptr;
  b->leading_dimension = 0;
  b->packed_layout = layout;
  return LATHE_OK;
}

absl::Status pack_weight(lathe_device* device, const Stream& stream, const lathe_matmul_desc& product,
                         DeviceBuffer* memory, lathe_operand* b) {
  lathe_operand packed;
  size_t bytes = 0;
  if (absl::Status s = check(describe_packed(device, product, &packed, &bytes)); !s.ok()) return s;
  auto made = DeviceBuffer::make(device, stream.get(), std::vector<uint8_t>(bytes));
  if (!made.ok()) return made.status();
  *memory = *std::move(made);
  packed.data = memory->data();
  const absl::Status s =
      check(lathe_pack_weights(device, &product, packed.packed_layout, memory->data(), bytes));
  if (s.ok()) *b = packed;
  return s;
}

}  // namespace lathe::cli
