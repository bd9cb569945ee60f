// A GPU's DeviceMemory: memory and streams in its primary context, and copies on any stream.
#pragma once

#include "runtime/driver.h"
#include "runtime/gpu/contexts.h"
#include "runtime/gpu/scopes.h"

namespace lathe::gpu {

class Memory final : public DeviceMemory {
 public:
  // Both must outlive this object.
  Memory(const Library& library, const Contexts& contexts) : library_(library), contexts_(contexts) {}

  absl::StatusOr<void*> allocate(size_t bytes) override;
  absl::Status release(void* memory) override;
  absl::Status copy(void* stream, void* to, const void* from, size_t bytes, CopyKind kind) override;
  absl::StatusOr<void*> create_stream() override;
  absl::Status destroy_stream(void* stream) override;
  absl::Status synchronize(void* stream) override;

 private:
  absl::Status enter(ContextScope& scope, void* stream) const;

  const Library& library_;
  const Contexts& contexts_;
};

inline DevicePointer address(const void* memory) { return reinterpret_cast<DevicePointer>(memory); }
inline void* pointer(DevicePointer address) { return reinterpret_cast<void*>(address); }

}  // namespace lathe::gpu
