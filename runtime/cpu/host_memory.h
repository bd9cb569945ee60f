// The CPU's DeviceMemory: host memory, and NULL as the only stream.
#pragma once

#include "runtime/driver.h"

namespace lathe {

// Every call has finished when it returns. kInvalidArgument for a stream that is not null.
class HostMemory final : public DeviceMemory {
 public:
  absl::StatusOr<void*> allocate(size_t bytes) override;
  absl::Status release(void* memory) override;
  absl::Status copy(void* stream, void* to, const void* from, size_t bytes, CopyKind kind) override;
  absl::StatusOr<void*> create_stream() override { return nullptr; }
  absl::Status destroy_stream(void* stream) override;
  absl::Status synchronize(void* stream) override;
};

}  // namespace lathe
