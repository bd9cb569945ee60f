// The next BLAS: the library that serves every call that Lathe does not.
#pragma once

#include <atomic>

namespace lathe_blas {

// The next BLAS' function of this name; null if it has none, or if there is no next BLAS. The first call of the process
// opens the library. Thread-safe, and holds no lock while the library's constructors run.
void* find_next(const char* name);
// Path or description of the next BLAS, for messages.
const char* name_of_next();

// The next BLAS' function of one name, looked up at its first use.
template <typename Function>
class NextFunction {
 public:
  explicit constexpr NextFunction(const char* name) : name_(name) {}

  Function* get() {
    void* found = found_.load(std::memory_order_acquire);
    if (found == nullptr) {
      found = find_next(name_);
      found_.store(found == nullptr ? kAbsent : found, std::memory_order_release);
    }
    return found == kAbsent ? nullptr : reinterpret_cast<Function*>(found);
  }
  // For a call that nothing else can serve: ends the process, as the dynamic loader does if a symbol is missing.
  Function* require();

 private:
  static inline void* const kAbsent = reinterpret_cast<void*>(1);
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

[[noreturn]] void exit_without(const char* name);

template <typename Function>
Function* NextFunction<Function>::require() {
  Function* function = get();
  if (function == nullptr) exit_without(name_);
  return function;
}

}  // namespace lathe_blas
