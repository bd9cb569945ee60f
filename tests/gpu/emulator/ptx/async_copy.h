// Copies in flight of one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "tests/gpu/emulator/ptx/decoder.h"
#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

// cp.async: bytes move when a wait_group, or the mbarrier told by cp.async.mbarrier.arrive, needs them.
struct PendingCopy {
  uint64_t group = 0, number = 0;
  std::function<bool()> perform;
};

// cp.async.bulk in the bulk-group form (out of shared memory): first the source is read, then the target
// written.
struct PendingStore {
  uint64_t group = 0;
  std::function<bool()> read, write;
  bool was_read = false;
};

struct ThreadCopies {
  std::deque<PendingCopy> copies;
  uint64_t copy_group = 0;  // the group being filled
  uint64_t issued = 0;
  std::deque<PendingStore> stores;
  uint64_t store_group = 0;
};

ThreadCopies& copies_of(Thread& t);
// A copy out of shared memory joins the thread's bulk group.
Step issue_store(Thread& t, PendingStore store);
// The block and offset that a shared::cluster operand means, aligned; null with the error set.
Block* shared_place(Thread& t, const Instruction& i, uint64_t address, uint32_t alignment, uint32_t& offset);

// cp.async.bulk and its kin (bulk_copy.cc, tensor_copy.cc).
void decode_bulk(Decoder& d, bool reduces);
void decode_bulk_tensor(Decoder& d, bool reduces);
// Bytes from shared memory into `bytes`, as the asynchronous proxy sees them.
bool read_shared(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size,
                 uint8_t* bytes);
void write_shared(Block& block, uint32_t offset, uint64_t size, const uint8_t* bytes);

// The reductions of cp.reduce.async.bulk, on `size` bytes. False if the pair is not known.
enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };
Reduction take_reduction(Decoder& d);
bool can_reduce(Reduction op, Type type);
void reduce_bytes(Reduction op, Type type, uint8_t* target, const uint8_t* source, uint64_t size);

}  // namespace lathe::ptx
