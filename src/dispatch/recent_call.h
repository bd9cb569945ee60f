// The last matmuls and argmaxes of a thread, ready to launch again. An engine repeats its descriptors with other
// pointers. Then the checks of sizes, strides and dtypes still hold, and so does the entry of the dispatch table.
#pragma once

#include "dispatch/device.h"

namespace lathe {

// Whether these operands may alias D exactly: same size, dtype and strides.
struct MayBeD {
  bool c, residual;
};

// Whether the calls of an op are kept.
template <typename Desc>
inline constexpr bool kKeepsCalls = false;
template <>
inline constexpr bool kKeepsCalls<lathe_matmul_desc> = true;
template <>
inline constexpr bool kKeepsCalls<lathe_argmax_desc> = true;

template <typename Desc>
class RecentCall {
 public:
  // This thread's call whose descriptor differs from `desc` only in the pointers to operands. The pointers are
  // checked here: none is missing, and outputs do not overlap inputs, except where exact aliasing is allowed.
  // Null if there is no such call; the caller then reads the descriptor in full, which also reports errors. On a
  // GPU the alignment of pointers is part of the class, so all must be multiples of 16 bytes. Later calls of this
  // thread overwrite the result, including calls that a caller's parallel-for makes during the launch.
  static RecentCall* find(const lathe_device& device, void* stream, const Desc* desc);
  // Keeps a call. `request` was read from `desc` with Purpose::kRun, and `entry` is the table's entry for its key.
  // Ignores descriptors that point to other structures (scales, zero points, chains) and products with K = 0.
  static void keep(const lathe_device& device, const Desc& desc, const Request& request,
                   const DispatchEntry& entry);

  const DispatchEntry& entry() const { return *entry_; }
  // Runs the call with the pointers of `desc` on this thread, if its tasks can run there. False: nothing was done.
  bool run_on_caller(const Desc& desc);
  // The launch in `stream` with the pointers of `desc`. Copies the arguments to `args`. On a GPU `args` may be
  // null, since the driver makes a copy.
  Launch launch(const Desc& desc, void* stream, ArgumentBlock* args);

 private:
  static RecentCall& slot_of(const Desc& desc);

  // All members are zero at first, so that a thread's slots cost no memory until they are written.
  uint64_t device_ = 0;  // the device's serial; 0: the slot is empty
  Desc desc_ = {};
  Spans spans_ = {};
  MayBeD may_be_d_ = {};
  const DispatchEntry* entry_ = nullptr;
  Dims dims_ = {0, 0, 0, 0};
  LaunchConfig config_ = {0, 0, 0, 0, 0};
  CallerTasks tasks_ = {};
  LaunchShape shape_ = {};
  ArgumentBlock arguments_ = {};
};

extern template class RecentCall<lathe_matmul_desc>;
extern template class RecentCall<lathe_argmax_desc>;

}  // namespace lathe
