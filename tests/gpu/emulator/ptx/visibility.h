// When a store to global memory becomes visible to other clusters. Without fences, a GPU orders nothing between
// blocks.
//
// A cluster sees its own ordinary stores at once. Other clusters see them after one of its threads executes a
// release at gpu scope (a fence, a releasing store or a releasing atomic), or at a time the launch chooses. An ordinary
// load may return any value the place had since the last acquire at gpu scope of its cluster. Atomics, relaxed and
// volatile accesses read and write memory directly and order nothing else. Within a cluster, and between asynchronous
// copies, this memory model is stronger than the hardware's.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tests/gpu/emulator/ptx/launch.h"

namespace lathe::ptx {

class Machine;
struct Cluster;

// Some bytes of an aligned 64-byte line; the mask has one bit per byte.
struct StoredLine {
  uint64_t mask = 0;
  uint8_t bytes[64];
};
using StoredLines = absl::flat_hash_map<uintptr_t, StoredLine>;

class Visibility {
 public:
  explicit Visibility(Machine& machine) : machine_(machine) {}

  // Whether a load at this place might return something else than what memory holds.
  bool concerns(const Cluster& cluster, const uint8_t* place) const;
  // An ordinary access of at most 32 bytes within one line.
  void load(Cluster& cluster, const uint8_t* place, uint8_t* bytes, uint32_t size);
  void store(Cluster& cluster, uint8_t* place, const uint8_t* bytes, uint32_t size);
  // Called before an access that goes to memory directly. It writes the cluster's own pending stores to this place
  // and forgets the older values of the place.
  void settle(Cluster& cluster, const uint8_t* place, uint64_t size);

  void release(Cluster& cluster);  // makes all stores of the cluster so far visible
  void acquire(Cluster& cluster);  // its later loads return no value replaced before now
  void leave(Cluster& cluster);    // the cluster ends; its stores stay invisible
  void show_all();                 // makes every store visible and forgets all older values

 private:
  // The bytes (under the mask) that a store of `writer` replaced at `time`.
  struct Replaced {
    uint64_t time, writer;
    StoredLine old;
  };
  struct Left {
    uint64_t writer;
    StoredLines lines;
  };
  void write(uintptr_t line, const StoredLine& stored, uint64_t writer);
  void write_all(StoredLines& lines, uint64_t writer);

  Machine& machine_;
  absl::flat_hash_map<uintptr_t, std::vector<Replaced>> past_;
  size_t past_count_ = 0, pending_count_ = 0;
  uintptr_t past_low_ = UINTPTR_MAX, past_high_ = 0;
  std::deque<Left> left_;
};

}  // namespace lathe::ptx
