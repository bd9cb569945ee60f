// The roles of the warps in a "tcgen05" workgroup, the copies and the products.
#include "kernels/matmul/tcgen05/emit.h"

#include "core/plan.h"
#include "kernels/matmul/grouped/emit.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// PTX ISA, instruction descriptor: the numbers of the element types.
ScaledKind kind_of(const Tcgen05Shape& shape) {
  const auto number = [](DType t) { return t == DType::kMXF4E2M1 ? 5 : t == DType::kMXF8E5M2 ? 1 : 0; };
  if (shape.a == DType::kMXF4E2M1) return {"mxf4", shape.scales_of_step(), 1, 1, true};
  if (shape.a == DType::kNVF4E2M1) return {"mxf4nvf4", shape.scales_of_step(), 1, 1, false};
  return {"mxf8f6f4", shape.scales_of_step(), number(shape.a), number(shape.b), true};
}

DType element_of(DType blocks) {
  if (blocks == DType::kMXF8E4M3) return DType::kF8E4M3;
  return blocks == DType::kMXF8E5M2 ? DType::kF8E5M2 : DType::kF4E2M1;
}

DType blocks_of(TileProgram& program, unsigned operand) {
  return program.views.find(program.contraction.getDpsInputs()[operand])->second.blocks;
}

// Why the emitter does not support the plan, "" if it does.
std::string refusal(GpuKernel& kernel, const Tcgen05Shape& shape) {
  const auto& c = kernel.config<Tcgen05Config>();
  if (kernel.arch() != "sm_100a") return absl::StrCat(kernel.arch().str(), " has no tcgen05");
  if (kernel.alignment() != Alignment::k16) return "rows are not aligned to 16 bytes";
  if (std::string reason = Tcgen05Shape::refusal(shape.a, shape.b); !reason.empty()) return reason;
  if (!shape.defect().empty()) return shape.defect();
  if (c.tile_m != Tcgen05Shape::kTileM || c.tile_k != shape.tile_k() || c.threads != Tcgen05Shape::kThreads)
    return absl::StrCat("needs a tile of 128 by tile_n by ", shape.tile_k(), " and ", Tcgen05Shape::kThreads,
                        " threads");
  return "";
}

}  // namespace

Tcgen05Kernel::Tcgen05Kernel(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& program,
                             const Tcgen05Shape& shape)
    : e_(e), kernel_(kernel), step_(step), program_(program), shape_(shape), kind_(kind_of(shape)) {
  for (unsigned i = 0; i < 2; ++i) {
    places_[i] = scale_places(e, step, program, i);
    if (!copied_by_tma(i)) continue;
    TensorMap map;
    map.operand = i == 0 ? "a" : "b";
    map.dtype = element_of(blocks(i));
    map.columns = Var::kK;
    map.rows = i == 0 ? Var::kM : Var::kN;
    map.box_columns = static_cast<int32_t>(shape.elements_of_row());
    map.box_rows = static_cast<int32_t>(i == 0 ? Tcgen05Shape::kTileM : shape.tile_n);
    map.swizzle = Tcgen05Shape::kRow;
    map.shared_rows = i == 0 && rows_of(kernel.module()) == Rows::kCounts;
    maps_[i] = kernel.tensor_map(map);
  }
}

void Tcgen05Kernel::emit() {
  begin();
  kernel_.wait_for_earlier_kernel();
  const auto role = [&](Value condition, const std::function<void()>& work) { e_.when(condition, work); };
  role(e_.equal(warp_, e_.i32(Tcgen05Shape::kCopyWarp)), [&] { copy(); });
  role(e_.equal(warp_, e_.i32(Tcgen05Shape::kProductWarp)), [&] { multiply(); });
  role(e_.less(warp_, e_.i32(Tcgen05Shape::kScaleWarps)), [&] {
    gather();
    store();
  });
  end();
}

void Tcgen05Kernel::begin() {
  kernel_.facts.function_attributes.push_back({"nvvm.minctasm", absl::StrCat(shape_.resident())});
  // CUDA 12.8; scales of 16 elements are newer than the target.
  if (shape_.a == DType::kNVF4E2M1) kernel_.facts.ptx = 87;
  Value memory = kernel_.dynamic_shared(shape_.shared_bytes());
  shared_ = LLVM::PtrToIntOp::create(e_.b, e_.loc, e_.b.getI32Type(), memory);
  thread_ = e_.to_i32(kernel_.thread());
  warp_ = uniform_warp(e_, thread_);
  lane_ = e_.rem(thread_, e_.i32(32));
  count_ = e_.to_i32(e_.ceil_div(program_.depth, e_.idx(shape_.tile_k())));
  e_.when(e_.equal(thread_, e_.i32(0)), [&] {
    for (Value map : maps_)
      if (map) prefetch_map(e_, map);
    for (int64_t s = 0; s < shape_.stages; ++s) {
      init_barrier(e_, full(e_.i32(s)), 2);
      init_barrier(e_, empty(e_.i32(s)), 1);
    }
    init_barrier(e_, done(), 1);
    fence_barrier_init(e_);
  });
  Value slot = e_.add(shared_, shape_.address_at());
  e_.when(e_.equal(warp_, e_.i32(Tcgen05Shape::kProductWarp)),
          [&] { allocate_tensor_memory(e_, slot, shape_.columns()); });
  fence_before_barrier(e_);
  kernel_.barrier();
  fence_after_barrier(e_);
  memory_ = load_shared(e_, slot, 0, 1, e_.b.getI32Type())[0];
}

// Tensor memory is freed after its last use by any warp.
void Tcgen05Kernel::end() {
  sync_warp(e_);
  fence_before_barrier(e_);
  kernel_.barrier();
  fence_after_barrier(e_);
  e_.when(e_.equal(warp_, e_.i32(Tcgen05Shape::kProductWarp)),
          [&] { free_tensor_memory(e_, memory_, shape_.columns()); });
}

Value Tcgen05Kernel::full(Value stage) {
  return e_.add(e_.add(shared_, e_.mul(stage, 16)), shape_.barriers_at());
}
Value Tcgen05Kernel::empty(Value stage) {
  return e_.add(e_.add(shared_, e_.mul(stage, 16)), shape_.barriers_at() + 8);
}
Value Tcgen05Kernel::done() { return e_.add(shared_, shape_.done_at()); }

Tcgen05Kernel::Slot Tcgen05Kernel::slot_of(Value block) {
  Value stages = e_.i32(shape_.stages);
  return {e_.rem(block, stages), e_.rem(e_.div(block, stages), e_.i32(2))};
}
void Tcgen05Kernel::wait_until_empty(Slot s) {
  wait_barrier(e_, empty(s.stage), arith::XOrIOp::create(e_.b, e_.loc, s.parity, e_.i32(1)));
}

// Elements outside an operand arrive as zeros and count towards the mbarrier's bytes. Rows of the next group are
// multiplied, but not stored.
void Tcgen05Kernel::copy() {
  e_.when(elect_lane(e_), [&] {
    Value batches[2], rows[2] = {e_.to_i32(program_.row0), e_.to_i32(program_.column0)};
    if (step_.rows()) rows[0] = e_.add(rows[0], e_.to_i32(step_.rows()->first));
    for (int i = 0; i < 2; ++i) {
      // A batch stride of 0 means that all of the batch share one matrix.
      Value same = e_.equal(step_.arguments().get(i == 0 ? "stride_a" : "stride_b"), e_.idx(0));
      batches[i] = arith::SelectOp::create(e_.b, e_.loc, same, e_.i32(0), e_.to_i32(program_.batch));
    }
    e_.loop(e_.i32(0), count_, 1, [&](Value block) {
      const Slot s = slot_of(block);
      wait_until_empty(s);
      arrive_expecting(e_, full(s.stage), shape_.copied_bytes());
      Value to = e_.add(shared_, e_.mul(s.stage, shape_.stage_bytes())),
            k = e_.mul(block, Tcgen05Shape::kRow);
      for (unsigned i = 0; i < 2; ++i)
        if (maps_[i])
          copy_in(e_, e_.add(to, i == 0 ? 0 : shape_.a_bytes()), maps_[i], {k, rows[i], batches[i]},
                  full(s.stage));
    });
  });
}

void Tcgen05Kernel::for_each_tile(
    const std::function<void(unsigned, int64_t, int64_t, int64_t)>& visit) const {
  int64_t number = 0;
  for (unsigned operand = 0; operand < 2; ++operand)
    for (int64_t of_k = 0; of_k < shape_.tiles_of_k(); ++of_k)
      for (int64_t of_lines = 0; of_lines < (operand == 0 ? 1 : shape_.tiles_of_n()); ++of_lines)
        visit(operand, of_k, of_lines, number++);
}

int64_t Tcgen05Kernel::column_of(unsigned operand, int64_t of_k, int64_t of_lines) const {
  constexpr int64_t kColumns = Tcgen05Shape::kTileColumns;
  if (operand == 0) return shape_.scales_a_column() + kColumns * of_k;
  return shape_.scales_b_column() + kColumns * (of_k * shape_.tiles_of_n() + of_lines);
}

// The copies of scales to tensor memory and the products run in the order in which they are issued, so the next stage
// may use the same columns.
void Tcgen05Kernel::multiply() {
  e_.when(elect_lane(e_), [&] {
    e_.loop(e_.i32(0), count_, 1, [&](Value block) {
      const Slot s = slot_of(block);
      wait_barrier(e_, full(s.stage), s.parity);
      fence_after_barrier(e_);
      Value scales = e_.add(e_.add(shared_, shape_.scales_at()), e_.mul(s.stage, shape_.scale_bytes()));
      for_each_tile([&](unsigned operand, int64_t of_k, int64_t of_lines, int64_t number) {
        copy_scales(e_, e_.add(memory_, column_of(operand, of_k, of_lines)),
                    e_.add(scales, number * Tcgen05Shape::kTileBytes));
      });
      Value stage = e_.add(shared_, e_.mul(s.stage, shape_.stage_bytes()));
      Value a = product_descriptor(e_, stage), b = product_descriptor(e_, e_.add(stage, shape_.a_bytes()));
      Value later = arith::CmpIOp::create(e_.b, e_.loc, arith::CmpIPredicate::ne, block, e_.i32(0));
      Value accumulate = arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), later);
      for (int64_t step = 0; step < Tcgen05Shape::kSteps; ++step) {
        const int64_t first = step * kind_.scales, of_k = first / Tcgen05Shape::kTileScales;
        constexpr int64_t kUnits = 2;  // of 16 bytes
        multiply_scaled(e_, kind_, shape_.tile_n, memory_, e_.add(a, kUnits * step), e_.add(b, kUnits * step),
                        e_.add(memory_, column_of(0, of_k, 0)), e_.add(memory_, column_of(1, of_k, 0)),
                        first % Tcgen05Shape::kTileScales, step == 0 ? accumulate : e_.i32(1));
      }
      // Without a further block for the stage nobody would wait for the arrival, and it could outlive the workgroup.
      e_.when(e_.less(e_.add(block, shape_.stages), count_),
              [&] { arrive_after_products(e_, empty(s.stage)); });
    });
    arrive_after_products(e_, done());
  });
}

LogicalResult emit_tcgen05(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  FailureOr<TileProgram> program = step.at(e, step.block(e));
  if (failed(program)) return failure();
  const auto& c = kernel.config<Tcgen05Config>();
  const Tcgen05Shape shape(blocks_of(*program, 0), blocks_of(*program, 1), c.tile_n, c.stages,
                           lists_rows(rows_of(kernel.module())));
  const std::string reason = refusal(kernel, shape);
  if (!reason.empty()) return program->contraction.emitError("matmul kernel 'tcgen05': ") << reason;
  Tcgen05Kernel(e, kernel, step, *program, shape).emit();
  return success();
}

}  // namespace lathe::emit
