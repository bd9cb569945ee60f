// The options of the driver's PTX compiler and linker, with buffers for their log messages.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "runtime/gpu/types.h"

namespace lathe::gpu {

class JitLog {
 public:
  // Both uses ask for messages about the code (CU_JIT_LOG_VERBOSE). The linker compiles for the device of the
  // current context (CU_JIT_TARGET_FROM_CUCONTEXT) at the highest level, which is the default, too
  // (CU_JIT_OPTIMIZATION_LEVEL 4). There is no register limit, because the kernels set theirs (.reqntid,
  // .minnctapersm).
  enum Use { kForLoading, kForLinker };
  explicit JitLog(Use use) : count_(use == kForLinker ? 7 : 5) { error_[0] = info_[0] = 0; }
  JitLog(const JitLog&) = delete;
  JitLog& operator=(const JitLog&) = delete;

  unsigned option_count() const { return count_; }
  int* options() { return options_; }
  void** values() { return values_; }
  // The driver's informational messages, one per line.
  absl::string_view info() const { return info_; }
  // ": <the driver's error or information text>", or "" if there is none.
  std::string suffix() const {
    const absl::string_view text = absl::StripAsciiWhitespace(error_[0] != 0 ? error_ : info_);
    return text.empty() ? "" : absl::StrCat(": ", text);
  }

 private:
  static void* as_value(uintptr_t number) { return reinterpret_cast<void*>(number); }

  char error_[4096], info_[4096];
  const unsigned count_;
  int options_[7] = {kJitErrorLogBuffer,     kJitErrorLogBufferBytes, kJitInfoLogBuffer,
                     kJitInfoLogBufferBytes, kJitLogVerbose,          kJitTargetFromContext,
                     kJitOptimizationLevel};
  // The driver overwrites the two sizes with the number of bytes it wrote.
  void* values_[7] = {
      error_, as_value(sizeof error_), info_, as_value(sizeof info_), as_value(1), nullptr, as_value(4)};
};

}  // namespace lathe::gpu
