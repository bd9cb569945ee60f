#include "runtime/cpu/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

constexpr size_t kAlignment = 64, kHugePage = size_t{2} << 20;

absl::Status check_stream(const void* stream) {
  if (stream == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError("cpu: the stream is not NULL, as it must be on the CPU");
}

}  // namespace

absl::StatusOr<void*> HostMemory::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  // aligned_alloc needs a multiple of the alignment. Large blocks hold weights, which are streamed, so ask
  // for huge pages.
  const size_t alignment = bytes >= kHugePage ? kHugePage : kAlignment;
  const size_t whole = (bytes + alignment - 1) & ~(alignment - 1);
  void* memory = bytes > PTRDIFF_MAX - alignment ? nullptr : std::aligned_alloc(alignment, whole);
  if (memory == nullptr)
    return absl::ResourceExhaustedError(absl::StrCat("cpu: no memory for ", bytes, " bytes"));
  if (alignment == kHugePage) madvise(memory, whole, MADV_HUGEPAGE);  // only a hint
  return memory;
}

absl::Status HostMemory::release(void* memory) {
  std::free(memory);
  return absl::OkStatus();
}

absl::Status HostMemory::copy(void* stream, void* to, const void* from, size_t bytes, CopyKind) {
  LATHE_RETURN_IF_ERROR(check_stream(stream));
  if (bytes != 0) std::memcpy(to, from, bytes);
  return absl::OkStatus();
}

absl::Status HostMemory::destroy_stream(void* stream) { return check_stream(stream); }
absl::Status HostMemory::synchronize(void* stream) { return check_stream(stream); }

}  // namespace lathe
