#include "runtime/cpu/code_memory.h"

#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/Orc/Shared/AllocationActions.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file_size_signal.h"
#include "base/standard_streams.h"
#include "base/status.h"

namespace lathe {
namespace {

using llvm::orc::MemProt;

struct Pages {
  char* begin = nullptr;
  size_t bytes = 0;
};

// The pages of a linked object and its deallocation actions. FinalizedAlloc holds the address of this.
struct Linked {
  Pages pages;
  std::vector<llvm::orc::shared::WrapperFunctionCall> at_end;
};

int protection_of(MemProt rights) {
  const auto has = [&](MemProt right) {
    return (static_cast<unsigned>(rights) & static_cast<unsigned>(right)) != 0;
  };
  return (has(MemProt::Read) ? PROT_READ : 0) | (has(MemProt::Write) ? PROT_WRITE : 0) |
         (has(MemProt::Exec) ? PROT_EXEC : 0);
}

std::string failed(const char* call, int error) { return absl::StrCat(call, ": ", std::strerror(error)); }

// Creates a file in memory; returns -1 with errno on failure. Since Linux 6.3 the system may require MFD_EXEC
// for an executable file; older kernels reject the flag.
int make_memory_file() {
  constexpr unsigned kExecutable = 0x10;
  const int file = memfd_create("lathe-kernel", MFD_CLOEXEC | kExecutable);
  return beyond_standard_streams(file >= 0 ? file : memfd_create("lathe-kernel", MFD_CLOEXEC));
}

// Writes at fixed offsets: while the file had a number of a standard stream, a daemon may have printed into it.
bool write_all(int file, const char* bytes, size_t size) {
  const FileSizeSignalHeld held;
  for (size_t done = 0; done < size;) {
    const ssize_t wrote = pwrite(file, bytes + done, size - done, static_cast<off_t>(done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return true;
}

// Replaces `pages` by a mapping of a memory file with the same bytes. Returns "" or the cause of the failure.
std::string replace_by_mapping(const Pages& pages, int protection) {
  const int file = make_memory_file();
  if (file < 0) return failed("memfd_create", errno);
  std::string cause;
  void* mapped = MAP_FAILED;
  if (!write_all(file, pages.begin, pages.bytes))
    cause = failed("write to a memory file", errno);
  else if (mapped = mmap(nullptr, pages.bytes, protection, MAP_PRIVATE, file, 0); mapped == MAP_FAILED)
    cause = failed("mmap of a memory file", errno);
  close(file);
  if (mapped == MAP_FAILED) return cause;
  // Not mmap with MAP_FIXED: it may fail after it has unmapped the old pages, and another thread could use
  // the hole.
  if (mremap(mapped, pages.bytes, pages.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pages.begin) != MAP_FAILED)
    return "";
  cause = failed("mremap of a memory file", errno);
  munmap(mapped, pages.bytes);
  return cause;
}

absl::Status protect(const Pages& pages, MemProt rights) {
  const int protection = protection_of(rights);
  if (mprotect(pages.begin, pages.bytes, protection) != 0) {
    const std::string refused = failed("mprotect", errno);
    if ((protection & PROT_EXEC) == 0) return absl::UnavailableError(refused);
    const std::string also_refused = replace_by_mapping(pages, protection);
    if (!also_refused.empty())
      return absl::UnavailableError(absl::StrCat(
          "the system does not let this process make code executable (", refused, "; ", also_refused, ")"));
  }
  if ((protection & PROT_EXEC) != 0) __builtin___clear_cache(pages.begin, pages.begin + pages.bytes);
  return absl::OkStatus();
}

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t whole_pages(size_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

}  // namespace

class CodeMemory::InFlight final : public JITLinkMemoryManager::InFlightAlloc {
 public:
  InFlight(CodeMemory& owner, llvm::jitlink::LinkGraph& graph, llvm::jitlink::BasicLayout layout, Pages pages)
      : owner_(owner), graph_(graph), layout_(std::move(layout)), pages_(pages) {}

  void finalize(OnFinalizedFunction done) override {
    absl::Status status;
    for (const auto& [group, segment] : layout_.segments()) {
      const Pages pages = {segment.WorkingMem, whole_pages(segment.ContentSize + segment.ZeroFillSize)};
      if (status.ok() && pages.bytes > 0) status = protect(pages, group.getMemProt());
    }
    if (!status.ok()) {
      unmap();
      return done(owner_.fail(std::move(status)));
    }
    auto at_end = llvm::orc::shared::runFinalizeActions(graph_.allocActions());
    if (!at_end) {
      unmap();
      return done(at_end.takeError());
    }
    done(FinalizedAlloc(llvm::orc::ExecutorAddr::fromPtr(new Linked{pages_, std::move(*at_end)})));
  }

  void abandon(OnAbandonedFunction done) override {
    unmap();
    done(llvm::Error::success());
  }

 private:
  void unmap() {
    if (pages_.bytes > 0) munmap(pages_.begin, pages_.bytes);
  }

  CodeMemory& owner_;
  llvm::jitlink::LinkGraph& graph_;
  llvm::jitlink::BasicLayout layout_;
  const Pages pages_;
};

llvm::Error CodeMemory::fail(absl::Status cause) {
  failure_ = std::move(cause);
  return llvm::createStringError(std::string(failure_.message()));
}

absl::Status CodeMemory::take_failure() { return std::exchange(failure_, absl::OkStatus()); }

void CodeMemory::allocate(const llvm::jitlink::JITLinkDylib* /*library*/, llvm::jitlink::LinkGraph& graph,
                          OnAllocatedFunction done) {
  llvm::jitlink::BasicLayout layout(graph);
  auto sizes = layout.getContiguousPageBasedLayoutSizes(page_size());
  if (!sizes) return done(sizes.takeError());
  Pages pages;
  pages.bytes = sizes->total();
  if (pages.bytes > 0) {
    void* memory = mmap(nullptr, pages.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return done(fail(absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", pages.bytes, " bytes of code: ", failed("mmap", errno)))));
    pages.begin = static_cast<char*>(memory);
  }
  char* next = pages.begin;
  for (auto& [group, segment] : layout.segments()) {
    segment.WorkingMem = next;
    segment.Addr = llvm::orc::ExecutorAddr::fromPtr(next);
    next += whole_pages(segment.ContentSize + segment.ZeroFillSize);
  }
  if (llvm::Error error = layout.apply()) {
    if (pages.bytes > 0) munmap(pages.begin, pages.bytes);
    return done(std::move(error));
  }
  done(std::make_unique<InFlight>(*this, graph, std::move(layout), pages));
}

void CodeMemory::deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) {
  llvm::Error errors = llvm::Error::success();
  for (auto allocation = allocations.rbegin(); allocation != allocations.rend(); ++allocation) {
    const std::unique_ptr<Linked> linked(allocation->release().toPtr<Linked*>());
    errors = llvm::joinErrors(std::move(errors), llvm::orc::shared::runDeallocActions(linked->at_end));
    if (linked->pages.bytes > 0) munmap(linked->pages.begin, linked->pages.bytes);
  }
  done(std::move(errors));
}

}  // namespace lathe
