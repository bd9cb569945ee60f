#include "kernels/matmul/grouped/emit.h"

#include <algorithm>

#include "kernels/matmul/emit_scales.h"
#include "kernels/matmul/grouped/emit_schedule.h"
#include "kernels/matmul/grouped/emit_workspace.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// Fills the offsets of the tile's rows from the list of slots, once for all threads. Rows beyond the last one repeat
// it, so that kernels which load whole tiles read existing rows. `scales` (a memref) gets the rows' first scales; it
// may be null.
void list_rows(Emit& e, GpuKernel& kernel, const Arguments& a, const WorkspaceParts& parts, GroupRows* rows,
               Value scales) {
  const int64_t height = kernel.config().tile_m();
  for (Value* list : {&rows->a, &rows->d, &rows->residual}) *list = kernel.shared(e.index(), height);
  Value inner = e.to_i32(a.get("index_offset")), last = e.sub(rows->count, e.idx(1));
  e.loop(kernel.thread(), e.idx(height), kernel.threads(), [&](Value i) {
    Value slot = e.load(parts.words(), parts.slot(e.add(rows->first, e.min(i, last))));
    Value outer = e.widen(e.div(slot, inner)), within = e.widen(e.rem(slot, inner));
    const auto place = [&](const char* pitch, const char* stride) {
      return e.add(e.mul(outer, a.get(pitch)), e.mul(within, a.get(stride)));
    };
    e.store(place("lda", "stride_a"), rows->a, i);
    e.store(rows->sums ? parts.sum(e.widen(slot), a.get("n")) : place("ldd", "stride_d"), rows->d, i);
    e.store(e.mul(e.widen(slot), a.get("ldr")), rows->residual, i);
    if (scales) e.store(scales_of_slot(e, a, outer, within), scales, i);
  });
  kernel.barrier();
}

LogicalResult emit_tile(Emit& e, GpuKernel& kernel, const GpuStep& step, Rows form, MatmulFamily family) {
  const Arguments& a = step.arguments();
  const WorkspaceParts parts(e, a, form);
  Value number = step.block(e).x;
  LogicalResult result = success();
  e.when(e.less(number, parts.load(e.idx(0))), [&] {
    const auto word = [&](int64_t i) { return parts.load(e.add(parts.tile(number), i)); };
    GroupRows rows = {word(0), word(2), word(1), {}, {}, {}, {}, {}};
    rows.first_slot =
        form == Rows::kCounts ? e.add(e.mul(rows.group, a.get("index_offset")), rows.first) : rows.first;
    if (sum_of(form) != DType::kNone) rows.sums = parts.floats();
    const bool apart = step.has_scales_apart();
    Value scales;
    if (lists_rows(form) && apart) scales = kernel.shared(e.index(), kernel.config().tile_m());
    if (lists_rows(form)) list_rows(e, kernel, a, parts, &rows, scales);
    const Arguments factored = apart ? with_scale_factors(e, kernel, step, rows.group) : a;
    result = family(e, kernel, step.with(factored).of_group(rows, scales));
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
  return is_grouped(rows) ? emit_tile(e, kernel, step, rows, family)
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
