// A thread's last matmuls on the CPU, ready to launch. An engine repeats its descriptors with other pointers:
// what was checked of sizes, distances and dtypes holds again, and so does the table's entry.
#pragma once

#include "api/device.h"

namespace lathe {

class RecentMatmul {
 public:
  // The one of this thread that differs from `desc` in nothing but the pointers to its operands, where those
  // are in order as well: none is missing, and D is apart from what is read or, where it may be, exactly it.
  // Null otherwise, where only the whole check can tell, and for what that refuses: no `desc`, a `stream`.
  // Later calls of this thread overwrite it, those that a caller's parallel-for makes during the launch among
  // them.
  static const RecentMatmul* find(const lathe_device& device, void* stream, const lathe_matmul_desc* desc);
  // `request` was read from `desc` to run, and `entry` is what the device's table has for its key.
  // Descriptors that lead to others (scales, zero points, chains) and those of GPUs are not kept.
  static void keep(const lathe_device& device, const lathe_matmul_desc& desc, const Request& request,
                   const DispatchEntry& entry);

  const DispatchEntry& entry() const { return *entry_; }
  // Those of the request that `desc` would be read as.
  ArgumentBlock arguments(const lathe_matmul_desc& desc) const;

 private:
  static RecentMatmul& slot_of(const lathe_matmul_desc& desc);
  bool takes_pointers(const lathe_matmul_desc& desc) const;

  // All zero at first: no page is a thread's before it is written to.
  uint64_t device_ = 0;  // its serial; 0: nothing is kept
  lathe_matmul_desc desc_ = {};
  Spans spans_ = {};
  bool c_may_be_d_ = false, residual_may_be_d_ = false;
  const DispatchEntry* entry_ = nullptr;
  ArgumentBlock arguments_ = {};
};

}  // namespace lathe
