// A thread's last matmuls and argmaxes, ready to launch. An engine repeats its descriptors with other
// pointers: what was checked of sizes, distances and dtypes holds again, and so does the table's entry.
#pragma once

#include "dispatch/device.h"

namespace lathe {

// Whether these, where they begin where D does, are D.
struct MayBeD {
  bool c, residual;
};

// `Desc`: lathe_matmul_desc or lathe_argmax_desc.
template <typename Desc>
class RecentCall {
 public:
  // The one of this thread that differs from `desc` in nothing but the pointers to its operands, where those
  // are in order as well: none is missing, and what is written is apart from what is read or, where it may
  // be, exactly it. Null otherwise, where only the whole check can tell, and for what that refuses: no
  // `desc`, a `stream` on the CPU. On a GPU the alignment of pointers is part of the class, so every pointer
  // must be a multiple of 16 bytes. Later calls of this thread overwrite it, those that a caller's
  // parallel-for makes during the launch among them.
  static RecentCall* find(const lathe_device& device, void* stream, const Desc* desc);
  // `request` was read from `desc` to run, and `entry` is what the device's table has for its key.
  // Descriptors that lead to others (scales, zero points, chains) are not kept, nor are products of K = 0.
  static void keep(const lathe_device& device, const Desc& desc, const Request& request,
                   const DispatchEntry& entry);

  const DispatchEntry& entry() const { return *entry_; }
  // Runs it with the pointers of `desc` where that is no more than to call its tasks. False: nothing was
  // done.
  bool run_on_caller(const Desc& desc);
  // The launch in `stream` with the pointers of `desc`. Its arguments are copied to `args`. On a GPU, whose
  // driver makes a copy itself, `args` may be null.
  Launch launch(const Desc& desc, void* stream, ArgumentBlock* args);

 private:
  static RecentCall& slot_of(const Desc& desc);

  // All zero at first: no page is a thread's before it is written to.
  uint64_t device_ = 0;  // its serial; 0: nothing is kept
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
