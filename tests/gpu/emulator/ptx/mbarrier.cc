// mbarrier instructions. Arrivals and bytes complete phases; a poll of an incomplete phase waits for it.
#include "tests/gpu/emulator/ptx/mbarrier.h"

#include "tests/gpu/emulator/ptx/memory.h"
#include "tests/gpu/emulator/ptx/table.h"

namespace lathe::ptx {
namespace {

constexpr uint64_t kPattern = 0x6d62617200000000;  // the bytes of an mbarrier: this pattern and its offset
constexpr uint32_t kMostArrivals = (1u << 20) - 1;

uint64_t pattern_at(uint32_t offset) { return kPattern | offset; }

Step fail(Thread& t, const Instruction& i, const std::string& why) {
  return t.block->machine->fault(t, i, absl::StatusCode::kAborted, why);
}

void check_phase(Block& block, Mbarrier& barrier) {
  if (barrier.pending != 0 || barrier.transactions != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.expected;
  for (Thread* waiter : barrier.waiters) block.wake(*waiter);  // polls again and sees the new phase
  barrier.waiters.clear();
}

// The block and the offset of the mbarrier operand: slot a plus imm.
Block* place_of(Thread& t, const Instruction& i, uint32_t& offset) {
  const uint64_t address = without_window(t.r[i.a]) + static_cast<uint64_t>(i.imm);
  if (address >> 32 != 0)
    return fail(t, i, absl::StrFormat("0x%x is not a shared address", address)), nullptr;
  Block* block = shared_block(t, i, address);
  offset = shared_offset(address);
  if (block != nullptr && offset % 8 != 0) {
    refuse_alignment(t, i, offset, 8);
    return nullptr;
  }
  return block;
}

}  // namespace

Mbarrier* find_mbarrier(Thread& t, const Instruction& i, Block& block, uint32_t offset) {
  const uint8_t* place = shared_range(t, i, block, offset, 8);
  if (place == nullptr) return nullptr;
  const auto it = block.mbarriers.find(offset);
  if (it == block.mbarriers.end()) {
    fail(t, i,
         absl::StrFormat("the mbarrier at shared address %u of the block of rank %u is not initialised",
                         offset, block.rank));
    return nullptr;
  }
  const uint64_t pattern = pattern_at(offset);
  if (std::memcmp(place, &pattern, 8) != 0) {
    fail(t, i, absl::StrFormat("the mbarrier at shared address %u was overwritten", offset));
    return nullptr;
  }
  return it->second.get();
}

bool complete_transactions(Thread& t, const Instruction& i, Block& block, uint32_t offset, int64_t bytes) {
  Mbarrier* barrier = find_mbarrier(t, i, block, offset);
  if (barrier == nullptr) return false;
  barrier->transactions -= bytes;
  if (barrier->transactions < -int64_t{kMostArrivals} || barrier->transactions > int64_t{kMostArrivals}) {
    fail(t, i,
         absl::StrFormat("the transaction count of the mbarrier at %u overflows: %d bytes", offset,
                         barrier->transactions));
    return false;
  }
  ++block.machine->progress;
  check_phase(block, *barrier);
  return true;
}

bool arrive(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint32_t count) {
  Mbarrier* barrier = find_mbarrier(t, i, block, offset);
  if (barrier == nullptr) return false;
  if (count > barrier->pending) {
    fail(t, i,
         absl::StrFormat("%u arrivals at the mbarrier at %u, but only %u are pending in this phase", count,
                         offset, barrier->pending));
    return false;
  }
  barrier->pending -= count;
  ++block.machine->progress;
  check_phase(block, *barrier);
  return true;
}

namespace {

Step initialise(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = place_of(t, i, offset);
  if (block == nullptr) return Step::fault;
  uint8_t* place = shared_range(t, i, *block, offset, 8);
  if (place == nullptr) return Step::fault;
  const uint32_t count = static_cast<uint32_t>(t.r[i.b]);
  if (count == 0 || count > kMostArrivals)
    return fail(
        t, i, absl::StrFormat("an arrival count of %u for an mbarrier, which must be 1 to 2^20 - 1", count));
  auto& object = block->mbarriers[offset];
  if (object != nullptr && !object->waiters.empty())
    return fail(t, i, "the mbarrier is initialised again while threads wait for it");
  object = std::make_unique<Mbarrier>();
  object->expected = object->pending = count;
  const uint64_t pattern = pattern_at(offset);
  std::memcpy(place, &pattern, 8);
  ++t.block->machine->progress;
  return Step::next;
}

Step invalidate(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = place_of(t, i, offset);
  if (block == nullptr) return Step::fault;
  Mbarrier* barrier = find_mbarrier(t, i, *block, offset);
  if (barrier == nullptr) return Step::fault;
  if (!barrier->waiters.empty()) return fail(t, i, "the mbarrier is invalidated while threads wait for it");
  block->mbarriers.erase(offset);
  std::memset(block->shared.data() + offset, 0xff, 8);
  return Step::next;
}

// arrive and arrive_drop. flags: 1 expects bytes first (slot c), 2 drops, 4 must not complete the phase. b: the slot of
// the count. d: the slot of the state, or kNone.
Step arrive_at(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = place_of(t, i, offset);
  if (block == nullptr) return Step::fault;
  Mbarrier* barrier = find_mbarrier(t, i, *block, offset);
  if (barrier == nullptr) return Step::fault;
  if (i.d != kNone) t.r[i.d] = barrier->phase;
  if ((i.flags & 1) != 0) barrier->transactions += static_cast<uint32_t>(t.r[i.c]);
  const uint32_t count = static_cast<uint32_t>(t.r[i.b]);
  const uint64_t phase = barrier->phase;
  if ((i.flags & 2) != 0) barrier->expected -= count;
  if (count == 0) return fail(t, i, "the number of arrivals is zero");
  if (!arrive(t, i, *block, offset, count)) return Step::fault;
  if ((i.flags & 4) != 0 && barrier->phase != phase)
    return fail(t, i, ".noComplete, but this arrival completes the phase");
  return t.block->machine->maybe_yield();
}

// expect_tx (flags 0) and complete_tx (flags 1). b: the slot of the byte count.
Step count_bytes(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = place_of(t, i, offset);
  if (block == nullptr) return Step::fault;
  const int64_t bytes = static_cast<uint32_t>(t.r[i.b]);
  return complete_transactions(t, i, *block, offset, i.flags != 0 ? bytes : -bytes) ? Step::next
                                                                                    : Step::fault;
}

// test_wait and try_wait. b: the slot of the state, or of the parity with flags 1.
Step poll(Thread& t, const Instruction& i) {
  uint32_t offset = 0;
  Block* block = place_of(t, i, offset);
  if (block == nullptr) return Step::fault;
  if (block != t.block) return fail(t, i, "a thread can wait only for an mbarrier of its own block");
  Mbarrier* barrier = find_mbarrier(t, i, *block, offset);
  if (barrier == nullptr) return Step::fault;
  if ((i.flags & 1) != 0 && (t.r[i.b] & 0xffffffff) > 1) return fail(t, i, "the parity must be 0 or 1");
  const bool complete =
      (i.flags & 1) != 0 ? (barrier->phase & 1) != (t.r[i.b] & 1) : barrier->phase != t.r[i.b];
  if (complete || t.wait_failed) {
    t.wait_failed = false;
    t.r[i.d] = complete;
    return complete ? Step::next : Step::yield;
  }
  // try_wait has a time limit that the system chooses, so sometimes it fails at once.
  if ((t.block->machine->random() & 7) == 0) {
    t.r[i.d] = 0;
    return Step::yield;
  }
  t.wait = Wait::mbarrier;
  barrier->waiters.push_back(&t);
  return Step::blocked;
}

void decode_arrive(Decoder& d, bool drops) {
  const bool expects = d.take("expect_tx"), incomplete = d.take("noComplete");
  d.take_one_of({"release", "relaxed"});
  d.take_one_of({"cta", "cluster"});
  take_space(d);
  d.take_type();
  const bool state = d.operand(0).kind != Operand::address;
  const size_t first = state ? 1 : 0;
  d.out().d = state && d.operand(0).kind != Operand::sink ? d.destination(0) : kNone;
  const Address place = d.address(first);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().b = d.out().c = d.builder().constant(1);
  if (expects) {
    d.out().c = d.source(first + 1, Type::u32);
  } else if (d.operand_count() > first + 1) {
    d.out().b = d.source(first + 1, Type::u32);
  }
  d.out().flags = static_cast<uint16_t>((expects ? 1 : 0) | (drops ? 2 : 0) | (incomplete ? 4 : 0));
  d.run(arrive_at);
}

void decode_poll(Decoder& d) {
  d.out().flags = d.take("parity") ? 1 : 0;
  d.take_one_of({"acquire", "relaxed"});
  d.take_one_of({"cta", "cluster"});
  take_space(d);
  d.take_type();
  d.out().d = d.destination(0);
  const Address place = d.address(1);
  d.out().a = place.base;
  d.out().imm = place.offset;
  d.out().b = d.source(2, Type::u64);
  if (d.operand_count() > 3) d.source(3, Type::u32);  // the time limit is not used
  d.run(poll);
}

}  // namespace

void decode_mbarrier(Decoder& d) {
  const int action = d.take_one_of(
      {"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait"});
  if (action == 2 || action == 3) return decode_arrive(d, action == 3);
  if (action == 6 || action == 7) return decode_poll(d);
  d.take("relaxed");
  d.take_one_of({"cta", "cluster"});
  take_space(d);
  d.take_optional_type();
  const Address place = d.address(0);
  d.out().a = place.base;
  d.out().imm = place.offset;
  if (action != 1) d.out().b = d.source(1, Type::u32);
  d.out().flags = action == 5;
  d.run(action == 0                  ? initialise
        : action == 1                ? invalidate
        : action == 4 || action == 5 ? count_bytes
                                     : nullptr);
}

}  // namespace lathe::ptx
