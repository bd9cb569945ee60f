// Every allocation of this process, counted: the program interposes malloc and its family.
#pragma once

#include <cstdint>

namespace lathe::bench {

// Since the process began, by all threads.
uint64_t allocations();

}  // namespace lathe::bench
