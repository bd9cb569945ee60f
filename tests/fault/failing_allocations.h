// The test program's own malloc (or operator new, under a sanitizer that has its own malloc). It counts the
// allocations of all threads and lets chosen ones fail. It also serves the program's shared libraries.
#pragma once

#include <cstdint>

namespace lathe::fault {

enum class Fails {
  kOnce,        // one allocation fails, as a large one may
  kFromThenOn,  // that one and all later ones fail, as on a machine without memory
};

// Lets the n-th allocation from now on fail, n >= 1.
void fail_allocation(int64_t n, Fails how);
// Ends the failures and returns how many allocations failed.
int64_t stop_failing();

}  // namespace lathe::fault
