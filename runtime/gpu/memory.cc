#include "runtime/gpu/memory.h"

#include "absl/strings/str_cat.h"

namespace lathe::gpu {

// Enters the context that the stream's work runs in.
absl::Status Memory::enter(ContextScope& scope, void* stream) const {
  Context current = nullptr;
  LATHE_RETURN_IF_ERROR(library_.check(library_.current_context(&current), "asking for the current context"));
  LATHE_ASSIGN_OR_RETURN(const Context context, contexts_.of_stream(stream, current));
  return scope.enter(context, current);
}

absl::StatusOr<void*> Memory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts_.primary()));
  const RelaxedCapture relaxed(library_);
  DevicePointer memory = 0;
  if (const int result = library_.call().memory_allocate(&memory, bytes); result != kSuccess)
    return library_.error(result, absl::StrCat("allocating ", bytes, " bytes"));
  return pointer(memory);
}

absl::Status Memory::release(void* memory) {
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts_.primary()));
  const RelaxedCapture relaxed(library_);
  return library_.check(library_.call().memory_free(address(memory)), "releasing memory");
}

absl::Status Memory::copy(void* stream, void* to, const void* from, size_t bytes, CopyKind kind) {
  if (bytes == 0) return absl::OkStatus();
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(enter(scope, stream));
  const Stream s = library_.stream(stream);
  const Calls& call = library_.call();
  switch (kind) {
    case CopyKind::kToDevice:
      return library_.check(call.copy_to_device(address(to), from, bytes, s), "copying to the device");
    case CopyKind::kToHost:
      return library_.check(call.copy_to_host(to, address(from), bytes, s), "copying to the host");
    case CopyKind::kOnDevice:
      return library_.check(call.copy_on_device(address(to), address(from), bytes, s),
                            "copying on the device");
  }
  return absl::InternalError("unknown kind of copy");
}

absl::StatusOr<void*> Memory::create_stream() {
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts_.primary()));
  const RelaxedCapture relaxed(library_);
  Stream stream = nullptr;
  LATHE_RETURN_IF_ERROR(
      library_.check(library_.call().stream_create(&stream, kStreamNonBlocking), "creating a stream"));
  return static_cast<void*>(stream);
}

absl::Status Memory::destroy_stream(void* stream) {
  if (reinterpret_cast<uintptr_t>(stream) <= kPerThreadStream)
    return absl::InvalidArgumentError("a default stream cannot be destroyed");
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(enter(scope, stream));
  return library_.check(library_.call().stream_destroy(static_cast<Stream>(stream)), "destroying a stream");
}

absl::Status Memory::synchronize(void* stream) {
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(enter(scope, stream));
  return library_.check(library_.call().stream_synchronize(library_.stream(stream)), "waiting for a stream");
}

}  // namespace lathe::gpu
