#include "tests/gpu/emulator/ptx/visibility.h"

#include <algorithm>
#include <cstring>

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {
namespace {

// The largest number of pending stored lines, and of replaced lines: some megabytes each.
constexpr size_t kLines = 1 << 15;

uintptr_t line_of(const uint8_t* place) { return reinterpret_cast<uintptr_t>(place) & ~uintptr_t{63}; }
uint64_t mask_of(const uint8_t* place, uint32_t size) {
  return ((uint64_t{1} << size) - 1) << (reinterpret_cast<uintptr_t>(place) & 63);
}

template <typename F>
void for_bytes(uint64_t mask, const F& f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(__builtin_ctzll(mask)));
}

}  // namespace

bool Visibility::concerns(const Cluster& cluster, const uint8_t* place) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(place);
  return !cluster.stores.empty() || (at >= past_low_ && at < past_high_);
}

void Visibility::load(Cluster& cluster, const uint8_t* place, uint8_t* bytes, uint32_t size) {
  const uintptr_t line = line_of(place);
  const uint64_t wanted = mask_of(place, size);
  const uint32_t first = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) & 63);
  std::memcpy(bytes, place, size);
  if (const auto own = cluster.stores.find(line); own != cluster.stores.end()) {
    for_bytes(own->second.mask & wanted, [&](uint32_t n) { bytes[n - first] = own->second.bytes[n]; });
    if ((own->second.mask & wanted) != 0) return;
  }
  const auto past = past_.find(line);
  if (past == past_.end()) return;
  for (size_t n = past->second.size(); n-- > 0;) {
    const Replaced& replaced = past->second[n];
    if (replaced.time <= cluster.acquired || replaced.writer == cluster.number) return;
    if (machine_.early(machine_.visible_policy)) return;
    for_bytes(replaced.old.mask & wanted, [&](uint32_t b) { bytes[b - first] = replaced.old.bytes[b]; });
  }
}

void Visibility::store(Cluster& cluster, uint8_t* place, const uint8_t* bytes, uint32_t size) {
  if (machine_.visible_policy == AsyncPolicy::early) {
    std::memcpy(place, bytes, size);
    return;
  }
  if (pending_count_ > kLines) {
    if (left_.empty()) {
      release(cluster);
    } else {
      write_all(left_.front().lines, left_.front().writer);
      left_.pop_front();
    }
  }
  const auto [it, is_new] = cluster.stores.try_emplace(line_of(place));
  pending_count_ += is_new ? 1 : 0;
  it->second.mask |= mask_of(place, size);
  std::memcpy(it->second.bytes + (reinterpret_cast<uintptr_t>(place) & 63), bytes, size);
  if (machine_.early(machine_.visible_policy)) {
    write(it->first, it->second, cluster.number);
    cluster.stores.erase(it);
    --pending_count_;
  }
}

void Visibility::settle(Cluster& cluster, const uint8_t* place, uint64_t size) {
  if (cluster.stores.empty() && past_.empty()) return;
  for (uintptr_t line = line_of(place); line < reinterpret_cast<uintptr_t>(place) + size; line += 64) {
    if (const auto own = cluster.stores.find(line); own != cluster.stores.end()) {
      write(line, own->second, cluster.number);
      cluster.stores.erase(own);
      --pending_count_;
    }
    if (const auto past = past_.find(line); past != past_.end()) {
      past_count_ -= past->second.size();
      past_.erase(past);
    }
  }
}

void Visibility::release(Cluster& cluster) { write_all(cluster.stores, cluster.number); }

void Visibility::acquire(Cluster& cluster) { cluster.acquired = ++machine_.time; }

void Visibility::leave(Cluster& cluster) {
  if (!cluster.stores.empty()) left_.push_back({cluster.number, std::move(cluster.stores)});
  cluster.stores.clear();
}

void Visibility::show_all() {
  for (Left& left : left_) write_all(left.lines, left.writer);
  left_.clear();
  machine_.for_clusters([&](Cluster& cluster) { release(cluster); });
  past_.clear();
  past_count_ = 0;
  past_low_ = UINTPTR_MAX;
  past_high_ = 0;
}

void Visibility::write(uintptr_t line, const StoredLine& stored, uint64_t writer) {
  uint8_t* memory = reinterpret_cast<uint8_t*>(line);
  if (past_count_ < kLines) {
    std::vector<Replaced>& past = past_[line];
    past.push_back({++machine_.time, writer, {stored.mask, {}}});
    for_bytes(stored.mask, [&](uint32_t n) { past.back().old.bytes[n] = memory[n]; });
    ++past_count_;
    past_low_ = std::min(past_low_, line);
    past_high_ = std::max(past_high_, line + 64);
  } else if (const auto past = past_.find(line); past != past_.end()) {
    past_count_ -= past->second.size();  // this write is not recorded, so the older history is invalid
    past_.erase(past);
  }
  for_bytes(stored.mask, [&](uint32_t n) { memory[n] = stored.bytes[n]; });
  ++machine_.progress;
}

void Visibility::write_all(StoredLines& lines, uint64_t writer) {
  for (const auto& [line, stored] : lines) write(line, stored, writer);
  pending_count_ -= lines.size();
  lines.clear();
}

}  // namespace lathe::ptx
