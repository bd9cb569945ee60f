// Who sees a store to global memory when: a device's memory orders nothing between blocks without a fence.
//
// A cluster sees its own ordinary stores at once; the others see them after a release of gpu scope by one of
// its threads (a fence, a releasing store or atomic), or at a time of the launch's own choice. An ordinary
// load may find what was there at any time since its cluster's last acquire of gpu scope. Atomics, relaxed
// and volatile accesses go to memory themselves and order nothing else. Within a cluster, and between the
// asynchronous copies, memory is stronger than a device's.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tests/gpu/emulator/ptx/launch.h"

namespace lathe::ptx {

class Machine;
struct Cluster;

// Some bytes of an aligned piece of 64; a bit of the mask for each.
struct StoredLine {
  uint64_t mask = 0;
  uint8_t bytes[64];
};
using StoredLines = absl::flat_hash_map<uintptr_t, StoredLine>;

class Visibility {
 public:
  explicit Visibility(Machine& machine) : machine_(machine) {}

  // Whether a load at this place can find anything but what memory holds.
  bool concerns(const Cluster& cluster, const uint8_t* place) const;
  // An ordinary access of at most 32 bytes within one line.
  void load(Cluster& cluster, const uint8_t* place, uint8_t* bytes, uint32_t size);
  void store(Cluster& cluster, uint8_t* place, const uint8_t* bytes, uint32_t size);
  // Before an access that goes to memory itself: the cluster's own stores there are made, and the place has
  // no past any more.
  void settle(Cluster& cluster, const uint8_t* place, uint64_t size);

  void release(Cluster& cluster);  // all of the cluster's stores so far become visible
  void acquire(Cluster& cluster);  // from now on it reads nothing that was replaced before
  void leave(Cluster& cluster);    // it ends; its stores stay invisible
  void show_all();                 // every store is made, nothing old is read

 private:
  // What a store replaced: the bytes under the mask until `time`, when `writer` wrote there.
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
