// Keeps the host's signal handlers off the stacks of Lathe's threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace lathe {

// Blocks signals on this thread while the object lives; a thread started meanwhile inherits that. Signals of
// faults (SIGSEGV and the like) are not blocked, so the host's crash handler still runs.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lathe
