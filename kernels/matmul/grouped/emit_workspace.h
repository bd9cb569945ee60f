// The parts of a grouped product's workspace (shape.h) in a kernel.
#pragma once

#include "compiler/gpu_kernel.h"
#include "kernels/matmul/grouped/shape.h"

namespace lathe::emit {

class WorkspaceParts {
 public:
  WorkspaceParts(Emit& e, const Arguments& a, Rows rows)
      : e_(e),
        words_(memory_at(e, a.get("workspace"), e.b.getI32Type())),
        floats_(memory_at(e, a.get("workspace"), e.f32())),
        counters_(e.idx(GroupedWorkspace::kAlignedWords)),
        slots_(aligned(e.add(counters_, a.get("batch")))),
        sums_(aligned(e.add(slots_, a.get("m")))),
        tiles_(sum_of(rows) == DType::kNone ? sums_ : aligned(e.add(sums_, e.mul(a.get("m"), a.get("n"))))) {}

  Value words() const { return words_; }    // memref of i32
  Value floats() const { return floats_; }  // the same memory, of f32
  // Places of words (index).
  Value counter(Value group) const { return e_.add(counters_, group); }
  Value slot(Value place) const { return e_.add(slots_, place); }
  Value sum(Value slot, Value n) const { return e_.add(sums_, e_.mul(slot, n)); }  // the slot's product
  Value tile(Value number) const { return e_.add(tiles_, e_.mul(number, GroupedWorkspace::kTileWords)); }

  Value load(Value at) const { return e_.widen(e_.load(words_, at)); }
  void store(Value index, Value at) const { e_.store(e_.to_i32(index), words_, at); }

 private:
  Value aligned(Value words) const {
    constexpr int64_t k = GroupedWorkspace::kAlignedWords;
    return e_.mul(e_.div(e_.add(words, k - 1), e_.idx(k)), k);
  }

  Emit& e_;
  Value words_, floats_, counters_, slots_, sums_, tiles_;
};

// The place in the routing of a slot's group. Index.
Value place_of_slot(Emit& e, const Arguments& a, Rows rows, Value slot);

}  // namespace lathe::emit
