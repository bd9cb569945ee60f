#include "base/execution_environment.h"

namespace lathe {
namespace {

// The innermost environment of this thread that replaced its caller's; null: none did.
thread_local const ExecutionEnvironment* replacing = nullptr;

#if defined(__x86_64__)
void set_alignment_check(bool on) {
  const uint64_t flags = __builtin_ia32_readeflags_u64();
  const uint64_t others = flags & ~ProcessorState::kAlignmentCheck;
  const uint64_t wanted = on ? others | ProcessorState::kAlignmentCheck : others;
  if (wanted != flags) __builtin_ia32_writeeflags_u64(wanted);
}

void write_default() {
  constexpr uint16_t kReserved = 0x0040;  // always reads as 1
  const uint16_t control = ProcessorState::kDefaultX87 | kReserved;
  __builtin_ia32_ldmxcsr(ProcessorState::kDefaultMxcsr);
  asm volatile("fldcw %0" ::"m"(control));
  set_alignment_check(false);
}

// The whole x87 environment: loading the control word alone would raise an exception that Lathe's code left
// pending and the caller does not mask.
void keep_rest(ProcessorState& state) { asm volatile("fnstenv %0" : "=m"(state.x87_environment)); }

void restore(const ProcessorState& state) {
  __builtin_ia32_ldmxcsr(state.mxcsr);
  asm volatile("fldenv %0" ::"m"(state.x87_environment));
  set_alignment_check(state.checks_alignment);
}
#else
void write_default() { asm volatile("msr fpcr, %0" ::"r"(uint64_t{0})); }
void keep_rest(ProcessorState&) {}
void restore(const ProcessorState& state) { asm volatile("msr fpcr, %0" ::"r"(state.fpcr)); }
#endif

}  // namespace

void ExecutionEnvironment::enter() {
  keep_rest(callers_);
  write_default();
  outer_ = replacing;
  replacing = this;
}

void ExecutionEnvironment::leave() {
  replacing = outer_;
  restore(callers_);
}

void ExecutionEnvironment::enter_for_good() { write_default(); }

CallersEnvironment::CallersEnvironment() : lent_(replacing) {
  if (lent_ == nullptr) return;
  replacing = lent_->outer_;
  restore(lent_->callers_);
}

CallersEnvironment::~CallersEnvironment() {
  if (lent_ == nullptr) return;
  write_default();
  replacing = lent_;
}

}  // namespace lathe
