// Repeats one C call and lets its n-th allocation fail, until n is larger than the number of its allocations.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "lathe/lathe.h"

namespace lathe::fault {

// A call to test. Allocations in prepare and right never fail.
struct Tried {
  const char* function;   // the C function's name
  const char* what = "";  // distinguishes several uses of the function
  std::function<lathe_status()> call;
  std::function<void()> prepare = [] {};              // runs before each call
  std::function<bool()> right = [] { return true; };  // checks the result of a successful call
  std::function<void()> settle = [] {};  // waits for background threads while allocations still fail
  bool every = false;                    // tries every n in the short form, too
};

// The call must succeed with the right result, or return OUT_OF_MEMORY with a message, and must work the next
// time. This is tested with one failing allocation and with all from one on. LATHE_FAULT_CAMPAIGN=long tries
// every n; otherwise all small n and fewer of the large ones.
void try_allocations(const Tried& tried);

// The functions that were tested, and how many allocations failed in them.
const std::set<std::string>& tried_functions();
int64_t injected_failures();

// The functions that the shared library at `path` exports.
std::set<std::string> exported_functions(const std::string& path);

}  // namespace lathe::fault
