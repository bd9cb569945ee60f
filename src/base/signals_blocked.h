// Signals are the host's: its handlers must not run on the stacks of Lathe's threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace lathe {

// While it lives this thread takes no signal, and a thread that it starts never does. Faults of the thread's
// own code are excepted: the process ends, and the host's handler for crashes still sees it.
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
