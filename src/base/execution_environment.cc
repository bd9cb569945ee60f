#include "base/execution_environment.h"

namespace lathe {
namespace {

// The innermost environment of this thread that changed the caller's state; null if none did.
thread_local const ExecutionEnvironment* replacing = nullptr;

#if defined(__x86_64__)
void write_default() {
  const uint16_t x87_control = 0x037f;  // also the value at program start
  __builtin_ia32_ldmxcsr(ProcessorState::kDefaultMxcsr);
  asm volatile("fldcw %0" ::"m"(x87_control));
}

// Saves the whole x87 environment. If only the control word were restored, an exception that Lathe's code
// left pending would be raised when the caller does not mask it.
void read(ProcessorState* state) {
  state->mxcsr = __builtin_ia32_stmxcsr();
  asm volatile("fnstenv %0" : "=m"(state->x87_environment));
}

void restore(const ProcessorState& state) {
  __builtin_ia32_ldmxcsr(state.mxcsr);
  asm volatile("fldenv %0" ::"m"(state.x87_environment));
}
#else
void write_default() { asm volatile("msr fpcr, %0" ::"r"(uint64_t{0})); }
void read(ProcessorState* state) { asm volatile("mrs %0, fpcr" : "=r"(state->fpcr)); }
void restore(const ProcessorState& state) { asm volatile("msr fpcr, %0" ::"r"(state.fpcr)); }
#endif

}  // namespace

void ExecutionEnvironment::enter() {
  read(&callers_);
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
