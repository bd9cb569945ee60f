// Signals are the host's: its handlers must not run on the stacks of Lathe's threads.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace lathe {

// While it lives this thread takes no signal, and a thread that it starts never does.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace lathe
