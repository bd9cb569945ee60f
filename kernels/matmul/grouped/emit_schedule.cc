#include "kernels/matmul/grouped/emit_schedule.h"

#include "kernels/matmul/grouped/emit_workspace.h"

namespace lathe::emit {
using namespace mlir;

Value place_of_slot(Emit& e, const Arguments& a, Rows rows, Value slot) {
  if (rows == Rows::kRowIds) return slot;
  Value number = e.to_i32(slot), used = e.to_i32(a.get("index_offset"));
  return e.add(e.mul(e.widen(e.div(number, used)), a.get("stride_c")), e.widen(e.rem(number, used)));
}

namespace {

class Schedule {
 public:
  Schedule(Emit& e, GpuKernel& kernel, const Arguments& a, const ScheduleForm& form)
      : e_(e),
        kernel_(kernel),
        a_(a),
        form_(form),
        tile_m_(kernel.config().tile_m()),
        parts_(e, a, form.rows),
        routing_(memory_at(e, a.get("values"), e.b.getI32Type())),
        groups_(a.get("batch")),
        slots_(a.get("m")),
        thread_(kernel.thread()) {}

  void emit() {
    const bool lists = lists_rows(form_.rows);
    if (lists) count_slots();
    Value share = e_.ceil_div(groups_, e_.idx(kernel_.threads()));
    begin_ = e_.mul(thread_, share);
    end_ = e_.min(e_.add(begin_, share), groups_);
    const Values own = e_.loop(begin_, end_, 1, {e_.idx(0), e_.idx(0)},
                               [&](Value group, const Values& sums) { return added(sums, count_of(group)); });
    const Values before = sums_before(own);
    e_.loop(begin_, end_, 1, before, [&](Value group, const Values& at) {
      const Span span = count_of(group);
      if (lists) parts_.store(at[0], parts_.counter(group));
      write_tiles(group, span, at);
      return added(at, span);
    });
    if (!lists) return;
    kernel_.barrier_for_global_memory();
    e_.loop(thread_, slots_, kernel_.threads(), [&](Value slot) {
      when_used(slot, [&](Value group) {
        Value place = e_.widen(take(group));
        e_.when(e_.less(place, slots_), [&] { parts_.store(slot, parts_.slot(place)); });
      });
    });
  }

 private:
  struct Span {
    Value first, count;  // `first`: of OFFSETS, the group's first row
  };

  // Adds 1 to the group's counter and returns what it was. i32.
  Value take(Value group) {
    return kernel_.atomic(LLVM::AtomicBinOp::add, pointer_to(e_, parts_.words(), parts_.counter(group)),
                          e_.i32(1));
  }
  void when_used(Value slot, const std::function<void(Value group)>& then) {
    Value id = e_.load(routing_, place_of_slot(e_, a_, form_.rows, slot));
    e_.when(e_.less(id, e_.to_i32(groups_)), [&] { then(e_.widen(id)); });
  }
  void count_slots() {
    e_.loop(thread_, groups_, kernel_.threads(),
            [&](Value group) { parts_.store(e_.idx(0), parts_.counter(group)); });
    kernel_.barrier_for_global_memory();
    e_.loop(thread_, slots_, kernel_.threads(),
            [&](Value slot) { when_used(slot, [&](Value group) { take(group); }); });
    kernel_.barrier_for_global_memory();
  }

  Value at_most(Value x, Value y) {
    return arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::ule, x, y);
  }
  Value select(Value condition, Value x, Value y) {
    return arith::SelectOp::create(e_.b, e_.loc, condition, x, y);
  }

  // The rows of a group; none if the routing's value is out of range.
  Span count_of(Value group) {
    Value none = e_.idx(0);
    if (lists_rows(form_.rows)) return {none, parts_.load(parts_.counter(group))};
    Value value = e_.widen(e_.load(routing_, group));
    if (form_.rows == Rows::kCounts)
      return {none, select(at_most(value, a_.get("index_offset")), value, none)};
    Value end = e_.widen(e_.load(routing_, e_.add(group, 1)));
    Value valid = arith::AndIOp::create(e_.b, e_.loc, at_most(value, end), at_most(end, slots_));
    return {value, select(valid, e_.sub(end, value), none)};
  }
  Value tiles_of(Value count) { return e_.ceil_div(count, e_.idx(tile_m_)); }
  // {rows, tiles} of all groups so far.
  Values added(const Values& sums, const Span& span) {
    return {e_.add(sums[0], span.count), e_.add(sums[1], tiles_of(span.count))};
  }

  // The sums of all threads before this one (Hillis and Steele's scan). Writes the number of all tiles.
  Values sums_before(const Values& own) {
    const int64_t threads = kernel_.threads();
    Value rows = kernel_.shared(e_.index(), threads), tiles = kernel_.shared(e_.index(), threads);
    const auto at = [&](Value thread) { return Values{e_.load(rows, thread), e_.load(tiles, thread)}; };
    const auto put = [&](const Values& sums) {
      e_.store(sums[0], rows, thread_), e_.store(sums[1], tiles, thread_);
    };
    const auto from = [&](int64_t distance) {
      Values none = {e_.idx(0), e_.idx(0)};
      return e_.choose(
          e_.less(thread_, e_.idx(distance)), none, [&] { return none; },
          [&] { return at(e_.sub(thread_, e_.idx(distance))); });
    };
    put(own);
    kernel_.barrier();
    for (int64_t distance = 1; distance < threads; distance *= 2) {
      const Values other = from(distance), mine = at(thread_);
      kernel_.barrier();
      put({e_.add(mine[0], other[0]), e_.add(mine[1], other[1])});
      kernel_.barrier();
    }
    e_.when(e_.equal(thread_, e_.idx(0)),
            [&] { parts_.store(e_.min(at(e_.idx(threads - 1))[1], most_tiles()), e_.idx(0)); });
    return from(1);
  }
  Value most_tiles() { return form_.tile_per_slot ? slots_ : e_.add(tiles_of(slots_), groups_); }

  // Writes the group's tiles. Only OFFSETS that overlap have more tiles than there is room for; the last are left out.
  void write_tiles(Value group, const Span& span, const Values& at) {
    Value end = e_.min(e_.add(at[1], tiles_of(span.count)), most_tiles());
    e_.loop(at[1], end, 1, [&](Value tile) {
      Value before = e_.mul(e_.sub(tile, at[1]), tile_m_);
      Value first = form_.rows == Rows::kOffsets  ? e_.add(span.first, before)
                    : form_.rows == Rows::kCounts ? before
                                                  : e_.add(at[0], before);
      Value count = e_.min(e_.sub(span.count, before), e_.idx(tile_m_)), word = parts_.tile(tile);
      parts_.store(group, word);
      parts_.store(first, e_.add(word, 1));
      parts_.store(count, e_.add(word, 2));
    });
  }

  Emit& e_;
  GpuKernel& kernel_;
  const Arguments& a_;
  const ScheduleForm form_;
  const int64_t tile_m_;
  const WorkspaceParts parts_;
  Value routing_, groups_, slots_, thread_;
  Value begin_, end_;  // the thread's groups
};

}  // namespace

void emit_schedule(Emit& e, GpuKernel& kernel, const Arguments& arguments, const ScheduleForm& form) {
  Schedule(e, kernel, arguments, form).emit();
}

}  // namespace lathe::emit
