// Keeps the process from forking while a library is being opened: the child would find the loader's lists half changed.
#pragma once

namespace lathe_blas {

// While an instance exists, a fork in another thread waits. Instances may be nested, and several threads may have one.
class NoFork {
 public:
  NoFork();
  ~NoFork();
  NoFork(const NoFork&) = delete;
  NoFork& operator=(const NoFork&) = delete;
};

}  // namespace lathe_blas
