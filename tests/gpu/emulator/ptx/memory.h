// Translates the addresses of a kernel to host addresses and checks them.
#pragma once

#include "absl/strings/str_format.h"
#include "tests/gpu/emulator/ptx/decoder.h"
#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

enum class Access : uint8_t { read, write };

// The slow paths and the errors of locate().
uint8_t* refuse_alignment(Thread& t, const Instruction& i, uint64_t address, uint32_t size);
uint8_t* refuse_global(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access);
uint8_t* locate_shared(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access);
uint8_t* locate_local(Thread& t, const Instruction& i, uint64_t address, uint32_t size);
uint8_t* locate_param(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access);
uint8_t* locate_generic(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access);

// The block whose shared memory a shared::cluster address names. Null after an error.
Block* shared_block(Thread& t, const Instruction& i, uint64_t address);
inline uint32_t shared_offset(uint64_t address) { return address & ((1u << kRankShift) - 1); }
// Shared memory of any block of the cluster, for copies. Alignment is not checked here.
uint8_t* shared_range(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size);
// Global memory, for copies. Alignment is not checked here.
uint8_t* global_range(Thread& t, const Instruction& i, uint64_t address, uint64_t size, Access access);
// Converts a generic address of shared memory to a shared address; leaves a shared address as it is.
inline uint64_t without_window(uint64_t address) {
  return (address >> kWindowShift) == (kSharedWindow >> kWindowShift) ? address - kSharedWindow : address;
}

inline void note_shared_write(Thread& t, Block& block, uint32_t offset, uint32_t size) {
  const uint64_t mark = (++t.block->machine->time << 16) | t.index;
  for (uint32_t granule = offset / 16; granule <= (offset + size - 1) / 16; ++granule)
    block.written[granule] = mark;
}
// Whether the asynchronous proxy may read these bytes for thread `t`: after the last ordinary store to them, the
// writer or thread `t` must have executed a fence.proxy.async. False after an error.
bool check_proxy(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint64_t size,
                 absl::string_view who);

// A pointer to `size` bytes at the address, or null after an error. The address must be a multiple of `size`.
template <Space kSpace>
inline uint8_t* locate(Thread& t, const Instruction& i, uint64_t address, uint32_t size, Access access) {
  if ((address & (size - 1)) != 0) return refuse_alignment(t, i, address, size);
  if constexpr (kSpace == Space::global || kSpace == Space::constant) {
    uint8_t* place = t.block->machine->memory.find(address, size);
    return place != nullptr ? place : refuse_global(t, i, address, size, access);
  } else if constexpr (kSpace == Space::shared) {
    return locate_shared(t, i, address, size, access);
  } else if constexpr (kSpace == Space::local) {
    return locate_local(t, i, address, size);
  } else if constexpr (kSpace == Space::param) {
    return locate_param(t, i, address, size, access);
  } else {
    return locate_generic(t, i, address, size, access);
  }
}

// What an instruction orders at gpu scope or wider: bits of Instruction::flags.
enum Orders : int { kRelease = 1, kAcquire = 2 };
struct Order {
  bool named = false;  // not weak; loads and stores are weak unless they say otherwise
  bool wide = false;   // gpu scope or wider
  int orders = 0;      // Orders that hold if named and wide
};
// Consumes the memory-order and scope modifiers of an access or a fence.
Order take_order(Decoder& d);
inline void order_before(Thread& t, int orders) {
  if ((orders & kRelease) != 0) t.block->machine->visibility.release(*t.block->cluster);
}
inline void order_after(Thread& t, int orders) {
  if ((orders & kAcquire) != 0) t.block->machine->visibility.acquire(*t.block->cluster);
}

// Consumes the state space of an instruction; generic if it names none.
Space take_space(Decoder& d);
// Consumes cache operators, eviction priorities and prefetch sizes, which have no effect here. True if the
// instruction has a cache-policy operand.
bool take_cache_hints(Decoder& d);

}  // namespace lathe::ptx
