// Counts the store's file-system calls and makes chosen ones fail. The program's definitions of these
// functions replace the C library's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace lathe::fault {

enum class Way {
  // The call number `index` fails with `error`, once.
  kErrno,
  // The call number `index` is made but reports `error`, once, as if a network had lost the reply. If `error`
  // is 0, it reports the error that a repeated call would get.
  kLost,
  // The read or write number `index` moves half of its bytes, once.
  kShort,
  // Every call from number `index` on fails with EIO, as if the machine had stopped.
  kCrash,
};

struct Plan {
  Way way = Way::kErrno;
  int error = 0;
  int64_t index = 0;  // 1: the first call
};

// Starts counting calls of this process and carries out the plan.
void arm(const Plan& plan);
// Stops. Returns whether the plan's index was reached.
bool disarm();
// The name of the call that failed, "" if none did.
const char* failed_call();

// After a crash: cuts every unsynced file under `directory` to the fraction `part` of its bytes.
void lose_unsynced(const std::string& directory, double part);

// Runs `call` once before this process's next flock, as another process could do between any two calls.
void before_next_flock(std::function<void()> call);

enum class Locks {
  kReal,
  kNone,  // every flock fails with ENOLCK, as on file systems without locks
  kOwn,   // every flock succeeds, as if no machine saw the others' locks
};
void set_locks(Locks locks);

// Whether directories list every name twice, as a network file system may while files change.
void set_names_twice(bool twice);

}  // namespace lathe::fault
