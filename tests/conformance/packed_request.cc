#include "packed_request.h"

#include <cstring>

namespace lathe::conformance {

PackedRequest::PackedRequest(lathe_device* device, const MatmulCase& c, Random* random,
                             const std::function<void(lathe_operand*)>& change)
    : request_(c, random) {
  lathe_matmul_desc* desc = request_.mutable_desc();
  if (change) change(&desc->b);
  uint32_t layout = 0;
  size_t bytes = 0;
  status_ = lathe_packed_layout(device, desc, &layout, &bytes);
  if (status_ != LATHE_OK) return;
  packed_ = std::make_unique<GuardedMemory>(bytes, c.flush, c.misalign);
  std::memset(packed_->data(), 0xFF, bytes);  // NaN: bytes that packing does not write spoil results
  status_ = lathe_pack_weights(device, desc, layout, packed_->address(), bytes);
  packed_->write_protect();
  desc->b.data = packed_->address();
  desc->b.leading_dimension = 0;
  if (desc->b.batch_stride != 0 && desc->batch > 1)
    desc->b.batch_stride =
        static_cast<int64_t>(bytes / bytes_of(desc->b.dtype)) / desc->batch * elements_of(desc->b.dtype);
  desc->b.packed_layout = layout;
  request_.set_tuning(c.split_k, c.candidate);
}

testing::AssertionResult PackedRequest::run(lathe_device* device) {
  if (status_ != LATHE_OK)
    return testing::AssertionFailure() << request_.parameters().describe() << ": " << lathe_last_error();
  return request_.run(device);
}

}  // namespace lathe::conformance
