#include "class_table.h"

#include <atomic>

namespace lathe_blas {
namespace {

// An entry: the hash without its lowest four bits, then three bits for the number of calls and one for Lathe. 0: empty.
// A set that is full forgets its first entry; then that class is decided again. Lock-free.
constexpr uint64_t kSets = 8192, kWays = 8, kLathe = 1, kOneCall = 2, kCalls = 14, kHash = ~uint64_t{15};
std::atomic<uint64_t> entries[kSets][kWays];

// One kernel serves a range of M: each value up to 16, then up to the next power of two, and everything above 512.
int64_t range_of(int64_t m) {
  if (m <= 16) return m;
  if (m > 512) return 1024;
  return int64_t{1} << (64 - __builtin_clzll(m - 1));
}

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

std::atomic<uint64_t>* set_of(uint64_t class_hash) { return entries[class_hash >> 32 & (kSets - 1)]; }

}  // namespace

uint64_t class_of(const Product& p) {
  uint64_t hash = mix(1, static_cast<uint64_t>(range_of(p.m)));
  hash = mix(hash, static_cast<uint64_t>(p.n));
  hash = mix(hash, static_cast<uint64_t>(p.k));
  hash = mix(hash, p.dtype * 8u + p.a.transposed * 4u + p.b.transposed * 2u + (p.beta != 0));
  return hash | 16;  // never an empty entry
}

Server server_of(uint64_t class_hash, int* times) {
  std::atomic<uint64_t>* const set = set_of(class_hash);
  for (uint64_t way = 0; way < kWays; ++way) {
    const uint64_t entry = set[way].load(std::memory_order_relaxed);
    if ((entry & kHash) != (class_hash & kHash)) continue;
    if ((entry & kLathe) != 0) return Server::kLathe;
    if ((entry & kCalls) != kCalls) set[way].store(entry + kOneCall, std::memory_order_relaxed);
    *times = static_cast<int>((set[way].load(std::memory_order_relaxed) & kCalls) / kOneCall);
    return Server::kNext;
  }
  return Server::kUndecided;
}

void set_server(uint64_t class_hash, Server server) {
  std::atomic<uint64_t>* const set = set_of(class_hash);
  const uint64_t entry = (class_hash & kHash) | (server == Server::kLathe ? kLathe : kOneCall);
  for (uint64_t way = 0; way < kWays; ++way) {
    uint64_t empty = 0;
    if (set[way].compare_exchange_strong(empty, entry) || (empty & kHash) == (class_hash & kHash)) return;
  }
  set[0].store(entry, std::memory_order_relaxed);
}

void clear_servers() {
  for (auto& set : entries)
    for (auto& entry : set) entry.store(0, std::memory_order_relaxed);
}

}  // namespace lathe_blas
