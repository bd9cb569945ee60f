// One C call again and again, its n-th allocation failing, until n is past all that it makes.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "lathe/lathe.h"

namespace lathe::fault {

// Preparing and checking allocate too: none of theirs fails.
struct Tried {
  const char* function;   // the C function's name
  const char* what = "";  // tells ways through it apart
  std::function<lathe_status()> call;
  std::function<void()> prepare = [] {};              // ahead of each call
  std::function<bool()> right = [] { return true; };  // whether what a call that succeeded gave is right
  std::function<void()> settle = [] {};  // while allocations still fail: waits for threads that work on
  bool every = false;                    // every n in the short campaign too
};

// A call succeeds, and rightly, or answers OUT_OF_MEMORY (also in its message), and works the next time; with
// one allocation failing, and with all from one on. LATHE_FAULT_CAMPAIGN=long: every n; else all small ones,
// and larger ones ever further apart.
void try_allocations(const Tried& tried);

// The functions that have been tried, and how many failures they have met.
const std::set<std::string>& tried_functions();
int64_t injected_failures();

// The functions that the shared library at `path` exports.
std::set<std::string> exported_functions(const std::string& path);

}  // namespace lathe::fault
