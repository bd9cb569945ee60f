// mbarrier objects in shared memory.
#pragma once

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

// The object at that place, or null with the error set: not initialised, or overwritten since.
Mbarrier* find_mbarrier(Thread& t, const Instruction& i, Block& block, uint32_t offset);
// Bytes that arrived; false with the error set.
bool complete_transactions(Thread& t, const Instruction& i, Block& block, uint32_t offset, int64_t bytes);
// `count` arrivals; false with the error set.
bool arrive(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint32_t count);

}  // namespace lathe::ptx
