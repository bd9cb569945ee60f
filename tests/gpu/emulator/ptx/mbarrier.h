// mbarrier objects in shared memory.
#pragma once

#include "tests/gpu/emulator/ptx/machine.h"

namespace lathe::ptx {

// The mbarrier at this offset. Null after an error: it is not initialised, or was overwritten.
Mbarrier* find_mbarrier(Thread& t, const Instruction& i, Block& block, uint32_t offset);
// Counts `bytes` as arrived. False after an error.
bool complete_transactions(Thread& t, const Instruction& i, Block& block, uint32_t offset, int64_t bytes);
// Counts `count` arrivals. False after an error.
bool arrive(Thread& t, const Instruction& i, Block& block, uint32_t offset, uint32_t count);

}  // namespace lathe::ptx
