// B packed in advance: requests with --packed.
#pragma once

#include "absl/status/status.h"
#include "cli/device_memory.h"
#include "cli/session.h"
#include "lathe/lathe.h"

namespace lathe::cli {

// The product whose B lathe_pack_weights packs.
inline const lathe_matmul_desc& product_of(const lathe_matmul_desc& desc) { return desc; }
lathe_matmul_desc product_of(const lathe_matmul_argmax_desc& desc);
lathe_matmul_desc product_of(const lathe_grouped_matmul_desc& desc);  // one row by all experts

// Turns the unpacked B of `product` into an operand for the packed one, without data. *bytes is the packed size.
lathe_status describe_packed(lathe_device* device, const lathe_matmul_desc& product, lathe_operand* b,
                             size_t* bytes);
// Packs B of `product` into `memory`; *b becomes the packed B. Only the CPU has packed weights, so device memory is
// host memory here.
absl::Status pack_weight(lathe_device* device, const Stream& stream, const lathe_matmul_desc& product,
                         DeviceBuffer* memory, lathe_operand* b);

}  // namespace lathe::cli
