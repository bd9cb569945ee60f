// The program's own malloc (under a sanitizer, which has one already, its own operator new): counts
// allocations, of whatever thread, and lets chosen ones fail. Linked into a test program, it is that of its
// libraries as well.
#pragma once

#include <cstdint>

namespace lathe::fault {

enum class Fails {
  kOnce,        // one allocation, the way a large one does
  kFromThenOn,  // that and all that follow, the way a full machine does
};

// The n-th allocation from now on fails, n >= 1.
void fail_allocation(int64_t n, Fails how);
// How many have failed since; none fails any more.
int64_t stop_failing();

}  // namespace lathe::fault
