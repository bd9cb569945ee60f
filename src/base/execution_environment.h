// The floating-point state in which Lathe's code runs, whatever the host has set for its threads.
//
// On x86-64, MXCSR and the x87 control word round to nearest, keep subnormal numbers and mask every
// exception. On AArch64, FPCR is 0, which means the same. Without this, a result would depend on the thread
// that computes the tile, and the oracle's choice on the rounding mode.
#pragma once

#include <cstdint>

namespace lathe {

// The part of a thread's state that Lathe sets and restores.
struct ProcessorState {
#if defined(__x86_64__)
  uint32_t mxcsr;
  char x87_environment[28];

  // Whether the calling thread's state is the default, except for exception flags. Does not read the x87
  // unit: no call uses it, and a host that changes its rounding or traps changes MXCSR too.
  static bool is_default() { return (__builtin_ia32_stmxcsr() & ~kExceptionFlags) == kDefaultMxcsr; }

  // Intel SDM, volume 1, figure 10-3; the default is the value at program start (System V ABI).
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

// Sets the default state while it lives. Every function of the C API holds one, and so does a task on a
// thread of the host. Costs about 2 nanoseconds if the state already is the default: then nothing is written.
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

  // For the start of one of Lathe's own threads, where nothing must be restored.
  static void enter_for_good();

 private:
  friend class CallersEnvironment;
  void enter();
  void leave();

  const bool changed_;
  ProcessorState callers_;  // this and outer_ are used only if changed_
  const ExecutionEnvironment* outer_;
};

// Restores the caller's state while it lives, for host code that Lathe calls and that computes.
class CallersEnvironment {
 public:
  CallersEnvironment();
  ~CallersEnvironment();
  CallersEnvironment(const CallersEnvironment&) = delete;
  CallersEnvironment& operator=(const CallersEnvironment&) = delete;

 private:
  const ExecutionEnvironment* const lent_;  // null: the caller has the default state
};

}  // namespace lathe
