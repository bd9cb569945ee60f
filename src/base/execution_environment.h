// The processor state that Lathe's code runs in, whatever the host has set for its own threads.
//
// x86-64: MXCSR and the x87 control word round to nearest, keep subnormal numbers and mask every exception;
// the alignment-check flag is clear. AArch64: FPCR is 0, which means the same. Results would otherwise depend
// on the thread that computes a tile, and the oracle's choice on the rounding mode.
#pragma once

#include <cstdint>

namespace lathe {

// The part of a thread's state that is set and restored.
struct ProcessorState {
#if defined(__x86_64__)
  uint32_t mxcsr = 0;
  uint16_t x87_control = 0;
  bool checks_alignment = false;
  alignas(8) char x87_environment[28];  // with the exception flags; written before the state is replaced

  static ProcessorState read() {
    ProcessorState s;
    s.mxcsr = __builtin_ia32_stmxcsr();
    asm volatile("fnstcw %0" : "=m"(s.x87_control));
    s.checks_alignment = (__builtin_ia32_readeflags_u64() & kAlignmentCheck) != 0;
    return s;
  }
  // True but for the exception flags, which operations set.
  bool is_default() const {
    return (mxcsr & ~kExceptionFlags) == kDefaultMxcsr && (x87_control & kX87Fields) == kDefaultX87 &&
           !checks_alignment;
  }

  // Intel SDM, volume 1, figures 10-3 and 8-6; the values are those at the start of a program (System V ABI).
  static constexpr uint32_t kExceptionFlags = 0x3f, kDefaultMxcsr = 0x1f80;
  static constexpr uint16_t kX87Fields = 0x0f3f, kDefaultX87 = 0x033f;
  static constexpr uint64_t kAlignmentCheck = uint64_t{1} << 18;
#else
  uint64_t fpcr = 0;

  static ProcessorState read() {
    ProcessorState s;
    asm volatile("mrs %0, fpcr" : "=r"(s.fpcr));
    return s;
  }
  bool is_default() const { return fpcr == 0; }
#endif
};

// Every function of the C API holds one, and so does a task on a thread that is not Lathe's. Costs some
// nanoseconds where the state is the default already: nothing is written then.
class ExecutionEnvironment {
 public:
  ExecutionEnvironment() : callers_(ProcessorState::read()), changed_(!callers_.is_default()) {
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

  ProcessorState callers_;
  const bool changed_;
  const ExecutionEnvironment* outer_ = nullptr;
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
