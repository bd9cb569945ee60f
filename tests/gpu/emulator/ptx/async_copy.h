// One thread's asynchronous copies in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "tests/gpu/emulator/ptx/decoder.h"
#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

// A cp.async. The bytes move when a wait_group needs them, or the mbarrier of cp.async.mbarrier.arrive.
struct PendingCopy {
  uint64_t group = 0, number = 0;
  std::function<bool()> perform;
};

// A cp.async.bulk out of shared memory (the bulk-group form). The source is read first, then the target is
// written; a wait may ask for the read alone.
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
// Adds a copy out of shared memory to the thread's current bulk group.
Step issue_store(Thread& t, PendingStore store);
// The block and the offset that a shared::cluster address names, with the alignment checked. Null after an error.
Block* shared_place(Thread& t, const Instruction& i, uint64_t address, uint32_t alignment, uint32_t& offset);

// cp.async.bulk and cp.reduce.async.bulk (bulk_copy.cc) and their tensor forms (tensor_copy.cc).
void decode_bulk(Decoder& d, bool reduces);
void decode_bulk_tensor(Decoder& d, bool reduces);
// Copies from shared memory into `bytes`, as the asynchronous proxy sees it. False after an error.
bool read_shared(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size,
                 uint8_t* bytes);
void write_shared(Block& block, uint32_t offset, uint64_t size, const uint8_t* bytes);

// The reductions of cp.reduce.async.bulk. can_reduce() says whether PTX has this reduction for the type.
enum class Reduction : uint8_t { none, add, min, max, inc, dec, bit_and, bit_or, bit_xor };
Reduction take_reduction(Decoder& d);
bool can_reduce(Reduction op, Type type);
void reduce_bytes(Reduction op, Type type, uint8_t* target, const uint8_t* source, uint64_t size);

}  // namespace lathe::ptx
