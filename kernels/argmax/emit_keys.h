// Packs a value and its column into one unsigned integer, the key, which is greater for the better pair.
// Atomic maxima compare keys.
#pragma once

#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// An unsigned i32 that is ordered like the value (f32). It is equal for -0 and +0, and the same and greatest
// for every NaN.
Value ordered(Emit& e, Value value);

// i64: `ordered` in the upper half, the column's complement in the lower. The key of a pair is greater than
// 0; column 0xFFFFFFFF means none.
Value pack(Emit& e, const Best& b);
// The pair of a key. A zero comes back as +0, a NaN as some NaN.
Best unpack(Emit& e, Value key);
// The element `at` (index, 8 bytes each) of an array from kernel.shared(), as an !llvm.ptr<3>.
Value shared_pointer(Emit& e, Value memory, Value at);
// Raises the element `at` (index) of an i64 array from kernel.shared() to `key`, if that is greater.
void raise_shared(Emit& e, const GpuKernel& kernel, Value keys, Value at, Value key);

// kMergeLast: a key for each row of the problem, and after them a ticket for each row tile, in the launch's
// counters, which are 0 before and after the launch. A key takes two of the 32-bit counters, a ticket one.
class RowKeys {
 public:
  RowKeys(Emit& e, const GpuKernel& kernel, const Arguments& arguments)
      : e_(e), kernel_(kernel), arguments_(arguments) {}

  void raise(Value row, Value key) const;
  // Returns the row's key and sets it to 0.
  Value take(Value row) const;
  Value ticket_counter(Value tile) const;

 private:
  Value place(Value at, Type element) const;

  Emit& e_;
  const GpuKernel& kernel_;
  const Arguments& arguments_;
};

}  // namespace lathe::emit
