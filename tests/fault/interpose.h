// The store's file-system calls, counted and made to fail. This program's definitions come before the C
// library's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lathe::fault {

enum class Way {
  kErrno,  // the call of the index fails with `error`, once
  kLost,   // the call of the index is made but reports `error`, once: a network lost the reply. With
           // `error` 0, it reports the error that a repeated call would get
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

enum class Locks {
  kReal,
  kNone,  // every flock fails with ENOLCK, as on file systems without locks
  kOwn,   // every flock succeeds, as if each process ran on a machine that sees no locks of others
};
void set_locks(Locks locks);

// Whether directories list every name twice, as a network file system may while files come and go.
void set_names_twice(bool twice);

}  // namespace lathe::fault
