// A value and its column as one unsigned integer that is greater where the pair is better: what atomic maxima
// compare.
#pragma once

#include "compiler/gpu_kernel.h"
#include "kernels/argmax/emit_best.h"

namespace lathe::emit {

// An unsigned i32 that is greater where the value (f32) is: equal for -0 and +0, the same and greatest for
// every NaN.
Value ordered(Emit& e, Value value);

// i64: `ordered` above the column's complement; any pair's is greater than 0, and 0xFFFFFFFF as a column
// means none.
Value pack(Emit& e, const Best& b);
// A zero comes back as +0, a NaN as one of them.
Best unpack(Emit& e, Value key);
// The element `at` (index, of 8 bytes) of an array that kernel.shared() made, as an !llvm.ptr<3>.
Value shared_pointer(Emit& e, Value memory, Value at);
// Raises the element `at` (index) of an i64 array that kernel.shared() made to the key.
void raise_shared(Emit& e, const GpuKernel& kernel, Value keys, Value at, Value key);

// kMergeLast: one key for every row of the problem, behind them one ticket for every row tile, in the
// launch's counters, which are 0 before and after. As 32-bit counters these are two a row and one a tile.
class RowKeys {
 public:
  RowKeys(Emit& e, const GpuKernel& kernel, const Arguments& arguments)
      : e_(e), kernel_(kernel), arguments_(arguments) {}

  void raise(Value row, Value key) const;
  // Takes the row's key away.
  Value take(Value row) const;
  Value ticket_counter(Value tile) const;

 private:
  Value place(Value at, Type element) const;

  Emit& e_;
  const GpuKernel& kernel_;
  const Arguments& arguments_;
};

}  // namespace lathe::emit
