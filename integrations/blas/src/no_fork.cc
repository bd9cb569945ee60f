#include "no_fork.h"

#include <pthread.h>

namespace lathe_blas {
namespace {

pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;  // a fork is the writer

void before_fork() { pthread_rwlock_wrlock(&lock); }
void in_parent() { pthread_rwlock_unlock(&lock); }
// The lock still counts threads that waited for it in the parent.
void in_child() { lock = PTHREAD_RWLOCK_INITIALIZER; }
__attribute__((constructor)) void watch_forks() { pthread_atfork(before_fork, in_parent, in_child); }

}  // namespace

NoFork::NoFork() { pthread_rwlock_rdlock(&lock); }
NoFork::~NoFork() { pthread_rwlock_unlock(&lock); }

}  // namespace lathe_blas
