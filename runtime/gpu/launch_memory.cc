#include "runtime/gpu/launch_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/gpu/scopes.h"

namespace lathe::gpu {
namespace {

constexpr size_t kFewCounters = 1024;  // so that a slab rarely grows only for counters

uint64_t this_thread() {
  // Never reused, unlike a thread's id or the address of its variables: work of an ended thread may still
  // run.
  static std::atomic<uint64_t> threads{0};
  static thread_local uint64_t number = 0;
  if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

size_t hash_of(const LaunchMemory::Key& key) {
  uint64_t h = reinterpret_cast<uint64_t>(key.stream) ^ reinterpret_cast<uint64_t>(key.context) * 3 ^
               key.thread * 0x9e3779b97f4a7c15u;
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  return static_cast<size_t>(h ^ h >> 32);
}

size_t line_up(size_t bytes) {
  constexpr size_t mask = LaunchMemory::kAlignment - 1;
  return bytes > SIZE_MAX - mask ? SIZE_MAX & ~mask : (bytes + mask) & ~mask;
}

LaunchNeed larger(const LaunchNeed& a, const LaunchNeed& b) {
  return {std::max(a.workspace_bytes, b.workspace_bytes), std::max(a.counters, b.counters),
          a.zeros || b.zeros};
}

// The size of a slab that replaces `old` and must serve `need`.
LaunchNeed grown(const LaunchNeed& need, const LaunchMemory::Slab* old) {
  LaunchNeed size = need;
  if (old == nullptr) return size;
  // A part that is large enough keeps its size.
  const auto at_least = [](size_t wanted, size_t had) {
    return wanted <= had ? had : std::max(wanted, 2 * had);
  };
  size.workspace_bytes = at_least(need.workspace_bytes, old->workspace_bytes);
  size.counters = at_least(need.counters, old->counter_count);
  return size;
}

}  // namespace

LaunchMemory::Key LaunchMemory::key_of(void* stream, Context default_context) {
  switch (reinterpret_cast<uintptr_t>(stream)) {
    case 0:
    case kLegacyStream: return {nullptr, default_context, 0};
    case kPerThreadStream: return {stream, default_context, this_thread()};
    default: return {stream, nullptr, 0};
  }
}

LaunchMemory::LaunchMemory(const Library& library, const Contexts& contexts)
    : library_(library), contexts_(contexts) {
  tables_.push_back(std::make_unique<Table>(16));
  current_.store(tables_.back().get(), std::memory_order_release);
}

LaunchMemory::~LaunchMemory() {
  if (spare_ != nullptr) free_slab(*spare_);
  for (const std::unique_ptr<Slab>& slab : slabs_) free_slab(*slab);
}

LaunchMemory::StreamState* LaunchMemory::find(const Key& key) const {
  const Table& table = *current_.load(std::memory_order_acquire);
  for (size_t i = hash_of(key);; ++i) {
    StreamState* stream = table.slot[i & table.mask].load(std::memory_order_acquire);
    if (stream == nullptr || stream->key_ == key) return stream;
  }
}

void LaunchMemory::place(Table& table, StreamState* stream) {
  size_t i = hash_of(stream->key_);
  while (table.slot[i & table.mask].load(std::memory_order_relaxed) != nullptr) ++i;
  table.slot[i & table.mask].store(stream, std::memory_order_release);
}

LaunchMemory::StreamState* LaunchMemory::adopt(const Key& key, Context context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (StreamState* known = find(key)) {
    if (known->context() != context) {
      // The new context cannot use the old slab, which stays in slabs_.
      known->slab_.store(nullptr, std::memory_order_release);
      known->context_.store(context, std::memory_order_release);
    }
    return known;
  }
  auto made = std::make_unique<StreamState>();
  made->key_ = key;
  made->context_.store(context, std::memory_order_relaxed);
  StreamState* stream = made.get();
  Table& table = *tables_.back();
  if ((streams_.size() + 1) * 2 > table.mask + 1) {
    auto larger_table = std::make_unique<Table>((table.mask + 1) * 2);
    for (const std::unique_ptr<StreamState>& other : streams_) place(*larger_table, other.get());
    place(*larger_table, stream);
    streams_.push_back(std::move(made));
    tables_.push_back(std::move(larger_table));
    current_.store(tables_.back().get(), std::memory_order_release);
  } else {
    streams_.push_back(std::move(made));
    place(table, stream);
  }
  return stream;
}

absl::StatusOr<const LaunchMemory::Slab*> LaunchMemory::grow(StreamState* stream, const LaunchNeed& need) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Slab* old = stream->slab();
  if (old != nullptr && old->serves(need)) return old;  // another thread has already grown it
  const LaunchNeed wanted = larger(need, floor_);
  std::unique_ptr<Slab> slab;
  if (spare_ != nullptr && spare_->context == stream->context() && spare_->serves(wanted)) {
    slab = std::move(spare_);
  } else {
    absl::StatusOr<std::unique_ptr<Slab>> made = make_slab(stream->context(), grown(wanted, old));
    // The doubled size may be what memory is short for, so try the needed size.
    if (!made.ok() && absl::IsResourceExhausted(made.status())) made = make_slab(stream->context(), need);
    if (!made.ok()) return made.status();
    slab = *std::move(made);
  }
  const Slab* result = slab.get();
  slabs_.push_back(std::move(slab));
  stream->slab_.store(result, std::memory_order_release);
  return result;
}

absl::Status LaunchMemory::reserve(const LaunchNeed& need) {
  const std::lock_guard<std::mutex> lock(mutex_);
  floor_ = larger(floor_, need);
  if (floor_.workspace_bytes == 0 && floor_.counters == 0) return absl::OkStatus();
  if (spare_ != nullptr && spare_->serves(floor_)) return absl::OkStatus();
  if (spare_ == nullptr && !slabs_.empty() && slabs_.back()->serves(floor_)) return absl::OkStatus();
  ContextScope scope(library_);
  LATHE_RETURN_IF_ERROR(scope.enter(contexts_.primary()));
  if (spare_ != nullptr) free_slab(*spare_);  // no launch uses it
  spare_.reset();
  LATHE_ASSIGN_OR_RETURN(spare_, make_slab(contexts_.primary(), floor_));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LaunchMemory::Slab>> LaunchMemory::make_slab(Context context,
                                                                            const LaunchNeed& need) {
  auto slab = std::make_unique<Slab>();
  slab->context = context;
  slab->counter_count = std::max(need.counters, kFewCounters);
  slab->workspace_bytes = line_up(need.workspace_bytes);
  const size_t head = kZeroBytes + line_up(slab->counter_count * sizeof(uint32_t));
  size_t bytes;
  if (__builtin_add_overflow(head, slab->workspace_bytes, &bytes)) bytes = SIZE_MAX;

  const Calls& call = library_.call();
  const RelaxedCapture relaxed(library_);
  if (const int result = call.memory_allocate(&slab->zeros, bytes); result != kSuccess)
    return library_.error(result, absl::StrCat("allocating a workspace of ", bytes, " bytes"));
  slab->counters = slab->zeros + kZeroBytes;
  slab->workspace = slab->zeros + head;
  Stream stream = nullptr;
  int result = call.stream_create(&stream, kStreamNonBlocking);
  if (result == kSuccess) {
    result = call.fill_bytes(slab->zeros, 0, head, stream);
    if (result == kSuccess) result = call.stream_synchronize(stream);
    call.stream_destroy(stream);
  }
  if (result == kSuccess) return slab;
  call.memory_free(slab->zeros);
  return library_.error(result, "zeroing a workspace");
}

void LaunchMemory::free_slab(const Slab& slab) {
  ContextScope scope(library_);
  if (!scope.enter(slab.context).ok()) return;  // the context is gone, and its memory with it
  const RelaxedCapture relaxed(library_);
  library_.call().memory_free(slab.zeros);
}

}  // namespace lathe::gpu
