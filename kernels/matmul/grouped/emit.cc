#include "kernels/matmul/grouped/emit.h"

#include <algorithm>
#include <deque>

#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/grouped/emit_schedule.h"
#include "kernels/matmul/grouped/emit_workspace.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// The tiles in the workspace.
class ScheduledTiles : public GroupTiles {
 public:
  ScheduledTiles(Emit& e, GpuKernel& kernel, const GpuStep& step, Rows form)
      : e_(e), kernel_(kernel), step_(step), form_(form), parts_(e, step.arguments(), form) {
    if (!lists_rows(form)) return;
    for (Value* list : {&lists_.a, &lists_.d, &lists_.residual}) *list = make_list();
    if (step.has_scales_apart()) scales_ = make_list();
  }

  Value count() override { return parts_.load(e_.idx(0)); }
  GpuStep tile(Value number, const RowReaders& readers) override {
    const Arguments& a = step_.arguments();
    const auto word = [&](int64_t i) { return parts_.load(e_.add(parts_.tile(number), i)); };
    Tile& tile = tiles_.emplace_back(Tile{lists_, a});
    GroupRows& rows = tile.rows;
    rows.group = word(0), rows.first = word(1), rows.count = word(2);
    rows.first_slot =
        form_ == Rows::kCounts ? e_.add(e_.mul(rows.group, a.get("index_offset")), rows.first) : rows.first;
    if (sum_of(form_) != DType::kNone) rows.sums = parts_.floats();
    if (lists_rows(form_)) list_rows(rows, readers);
    if (step_.has_scales_apart()) tile.arguments = with_scale_factors(e_, kernel_, step_, rows.group);
    return step_.with(tile.arguments).of_group(rows, scales_);
  }

 private:
  struct Tile {
    GroupRows rows;
    Arguments arguments;
  };
  Value make_list() { return kernel_.shared(e_.index(), kernel_.config().tile_m()); }
  // Fills the lists from that of the slots. Rows beyond the last one repeat it, so that kernels which load whole tiles
  // read existing rows.
  void list_rows(const GroupRows& rows, const RowReaders& readers) {
    if (!readers.a && !readers.d) return;
    const Arguments& a = step_.arguments();
    Value inner = e_.to_i32(a.get("index_offset")), last = e_.sub(rows.count, e_.idx(1));
    if (kernel_.config().persistent() > 0)
      readers.barrier();  // the lists of the tile before are read no more
    e_.loop(readers.thread, e_.idx(kernel_.config().tile_m()), readers.threads, [&](Value i) {
      Value slot = e_.load(parts_.words(), parts_.slot(e_.add(rows.first, e_.min(i, last))));
      Value outer = e_.widen(e_.div(slot, inner)), within = e_.widen(e_.rem(slot, inner));
      const auto place = [&](const char* pitch, const char* stride) {
        return e_.add(e_.mul(outer, a.get(pitch)), e_.mul(within, a.get(stride)));
      };
      if (readers.a) e_.store(place("lda", "stride_a"), rows.a, i);
      if (readers.a && scales_) e_.store(scales_of_slot(e_, a, outer, within), scales_, i);
      if (!readers.d) return;
      e_.store(rows.sums ? parts_.sum(e_.widen(slot), a.get("n")) : place("ldd", "stride_d"), rows.d, i);
      e_.store(e_.mul(e_.widen(slot), a.get("ldr")), rows.residual, i);
    });
    readers.barrier();
  }

  Emit& e_;
  GpuKernel& kernel_;
  const GpuStep& step_;
  const Rows form_;
  const WorkspaceParts parts_;
  GroupRows lists_;  // only the lists
  Value scales_;
  std::deque<Tile> tiles_;  // their addresses do not change
};

LogicalResult emit_tiles(Emit& e, GpuKernel& kernel, const GpuStep& step, Rows form, MatmulFamily family) {
  kernel.wait_for_earlier_kernel();  // which writes the tiles
  ScheduledTiles tiles(e, kernel, step, form);
  if (kernel.config().persistent() > 0) return family(e, kernel, step.of_tiles(tiles));
  Value number = step.block(e).x;
  LogicalResult result = success();
  e.when(e.less(number, tiles.count()), [&] {
    const RowReaders all = {kernel.thread(), kernel.threads(), [&] { kernel.barrier(); }, true, true};
    result = family(e, kernel, tiles.tile(number, all));
  });
  return result;
}

LogicalResult emit_known_rows(Emit& e, GpuKernel& kernel, const GpuStep& step, MatmulFamily family) {
  const Arguments& a = step.arguments();
  kernel.wait_for_earlier_kernel();  // which may write M
  Value m = e.load(memory_at(e, a.get("values"), e.b.getI32Type()), e.idx(0));
  m = e.min(arith::MaxSIOp::create(e.b, e.loc, m, e.i32(0)), e.to_i32(a.get("m")));
  const Arguments known = a.with("m", e.widen(m));
  LogicalResult result = success();
  e.when(e.less(e.mul(step.block(e).x, kernel.config().tile_m()), known.get("m")),
         [&] { result = family(e, kernel, step.with(known)); });
  return result;
}

Type type_of(Emit& e, DType t) {
  return t == DType::kF32 ? e.f32() : t == DType::kF16 ? Type(e.b.getF16Type()) : Type(e.b.getBF16Type());
}

// A token's slots are added in their order, so the result is the same in every run.
void emit_sum(Emit& e, GpuKernel& kernel, const Arguments& a, Rows form) {
  const WorkspaceParts parts(e, a, form);
  const auto block = [&](gpu::Dimension along) {
    return e.widen(e.to_i32(gpu::BlockIdOp::create(e.b, e.loc, e.index(), along, IntegerAttr())));
  };
  Type i32 = e.b.getI32Type(), out = type_of(e, sum_of(form));
  Value n = a.get("n"), used = a.get("index_offset");
  Value routing = memory_at(e, a.get("values"), i32), weights = memory_at(e, a.get("c"), e.f32()),
        d = memory_at(e, a.get("d"), out);
  Value tokens = e.widen(e.div(e.to_i32(a.get("m")), e.to_i32(used)));
  Value first = block(gpu::Dimension::x), step = e.ceil_div(a.get("m"), e.idx(kSlotsPerSumGroup));
  Value column = e.add(e.mul(block(gpu::Dimension::y), kernel.threads()), kernel.thread());
  Value exists = arith::AndIOp::create(e.b, e.loc, e.less(first, tokens), e.less(column, n));
  e.when(exists, [&] {
    e.loop(e.idx(0), e.ceil_div(e.sub(tokens, first), step), 1, [&](Value i) {
      Value token = e.add(first, e.mul(i, step));
      Values sum = e.loop(e.idx(0), used, 1, {e.constant_f32(0)}, [&](Value s, const Values& in) {
        Value group = e.load(routing, e.add(e.mul(token, a.get("stride_c")), s));
        return e.choose(
            e.less(group, e.to_i32(a.get("batch"))), in,
            [&] {
              Value product =
                  e.load(parts.floats(), e.add(parts.sum(e.add(e.mul(token, used), s), n), column));
              Value weight = e.load(weights, e.add(e.mul(token, a.get("ldc")), s));
              return Values{e.fma(weight, product, in[0])};
            },
            [&] { return in; });
      });
      const int64_t alignment = kernel.alignment() == Alignment::kByte ? 1 : 0;
      e.store(e.from_f32(sum[0], out), d, e.add(e.mul(token, a.get("ldd")), column), alignment);
    });
  });
}

}  // namespace

Rows rows_of(ModuleOp module) {
  auto rows = module->getAttrOfType<IntegerAttr>(ir::kRowsAttr);
  return rows ? static_cast<Rows>(rows.getInt()) : Rows::kPlain;
}

LogicalResult emit_some_rows(Emit& e, GpuKernel& kernel, const GpuStep& step, Rows rows,
                             MatmulFamily family) {
  return is_grouped(rows) ? emit_tiles(e, kernel, step, rows, family)
                          : emit_known_rows(e, kernel, step, family);
}

LogicalResult add_grouped_steps(ModuleOp module, StringRef symbol, ir::KernelConfigAttr config) {
  const Rows form = rows_of(module);
  const auto add = [&](const char* suffix, const GpuKernelEmitter& emitter) {
    return add_gpu_kernel(
        module, (symbol + suffix).str(), config, [&](Emit& e, GpuKernel& kernel, const Arguments& arguments) {
          // As in the merge step (emit_gpu.cc): 64 registers for each thread.
          constexpr int64_t kResidentThreads = 1024;
          const int64_t resident = std::max<int64_t>(kResidentThreads / kernel.threads(), 1);
          kernel.facts.function_attributes.emplace_back("nvvm.minctasm", std::to_string(resident));
          emitter(e, kernel, arguments);
        });
  };
  const bool tile_per_slot = module->hasAttr(ir::kTilePerSlotAttr);
  if (failed(add(kScheduleSuffix, [&](Emit& e, GpuKernel& kernel, const Arguments& a) {
        emit_schedule(e, kernel, a, {form, tile_per_slot});
      })))
    return failure();
  if (sum_of(form) == DType::kNone) return success();
  return add(kSumSuffix,
             [&](Emit& e, GpuKernel& kernel, const Arguments& a) { emit_sum(e, kernel, a, form); });
}

}  // namespace lathe::emit
