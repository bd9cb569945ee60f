// Counts the allocations of this process. The program interposes malloc and its relatives.
#pragma once

#include <cstdint>

namespace lathe::bench {

// Allocations by all threads since the process started.
uint64_t allocations();

}  // namespace lathe::bench
