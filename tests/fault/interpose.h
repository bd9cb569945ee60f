// The store's file-system calls, counted and made to fail. This program's definitions come before the C
// library's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lathe::fault {

enum class Way {
  kErrno,  // the call of the index fails with `error`, once
  kShort,  // the read or write of the index does half of its bytes, once
  kCrash,  // from the call of the index on every one fails with EIO: the machine has stopped
};

struct Plan {
  Way way = Way::kErrno;
  int error = 0;
  int64_t index = 0;  // 1: the first call
};

// Counts calls of this process from now on.
void arm(const Plan& plan);
// Whether the plan's index was reached.
bool disarm();
// The name of the call that failed, "" if none did.
const char* failed_call();

// After a crash: cuts every file under `directory` that was written to and not synced to `part` of its bytes.
void lose_unsynced(const std::string& directory, double part);

// Runs `call` once, ahead of this process' next flock: what another process may do between any two calls.
void before_next_flock(std::function<void()> call);

// Every flock fails with ENOLCK, as on file systems that have none.
void set_locks(bool available);

}  // namespace lathe::fault
