// A matmul request whose B is packed by lathe_pack_weights.
#pragma once

#include <functional>
#include <memory>

#include "guarded_memory.h"
#include "matmul_case.h"

namespace lathe::conformance {

// The packed weight is in guarded memory of exactly its size.
class PackedRequest {
 public:
  // `change` edits the descriptor of B before packing.
  PackedRequest(lathe_device* device, const MatmulCase& c, Random* random,
                const std::function<void(lathe_operand*)>& change = {});
  lathe_status status() const { return status_; }  // the status of packing
  MatmulRequest& request() { return request_; }
  testing::AssertionResult run(lathe_device* device);

 private:
  MatmulRequest request_;
  std::unique_ptr<GuardedMemory> packed_;
  lathe_status status_ = LATHE_OK;
};

}  // namespace lathe::conformance
