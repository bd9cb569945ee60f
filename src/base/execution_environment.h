// The processor state that Lathe's code runs in, whatever the host has set for its own threads.
//
// x86-64: MXCSR and the x87 control word round to nearest, keep subnormal numbers and mask every exception.
// AArch64: FPCR is 0, which means the same. Results would otherwise depend on the thread that computes a
// tile, and the oracle's choice on the rounding mode.
#pragma once

#include <cstdint>

namespace lathe {

// The part of a thread's state that is set and restored.
struct ProcessorState {
#if defined(__x86_64__)
  uint32_t mxcsr;
  char x87_environment[28];

  // Whether the calling thread's state is the default, exception flags aside. The x87 unit, which nothing on
  // the path of a call uses, is not looked at: what rounds or traps there does so in MXCSR too.
  static bool is_default() { return (__builtin_ia32_stmxcsr() & ~kExceptionFlags) == kDefaultMxcsr; }

  // Intel SDM, volume 1, figure 10-3; the default is that of a program's start (System V ABI).
  static constexpr uint32_t kExceptionFlags = 0x3f, kDefaultMxcsr = 0x1f80;
#else
  uint64_t fpcr;

  static bool is_default() {
    uint64_t fpcr;
    asm volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr == 0;
  }
#endif
};

// Every function of the C API holds one, and so does a task on a thread that is not Lathe's. Costs about 2
// nanoseconds where the state is the default already: nothing is written then.
class ExecutionEnvironment {
 public:
  ExecutionEnvironment() : changed_(!ProcessorState::is_default()) {
    if (__builtin_expect(changed_, 0)) enter();
  }
  ~ExecutionEnvironment() {
    if (__builtin_expect(changed_, 0)) leave();
  }
  ExecutionEnvironment(const ExecutionEnvironment&) = delete;
  ExecutionEnvironment& operator=(const ExecutionEnvironment&) = delete;

  // For the start of a thread of Lathe's own: there is nothing to restore.
  static void enter_for_good();

 private:
  friend class CallersEnvironment;
  void enter();
  void leave();

  const bool changed_;
  ProcessorState callers_;  // of these two nothing is read unless it is changed
  const ExecutionEnvironment* outer_;
};

// While it lives the thread has its caller's state again: for host code that Lathe calls and that computes.
class CallersEnvironment {
 public:
  CallersEnvironment();
  ~CallersEnvironment();
  CallersEnvironment(const CallersEnvironment&) = delete;
  CallersEnvironment& operator=(const CallersEnvironment&) = delete;

 private:
  const ExecutionEnvironment* const lent_;  // null: the caller's state is the default
};

}  // namespace lathe
