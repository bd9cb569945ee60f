#include "kernels/matmul/skinny/emit.h"

#include "compiler/ptx_hopper.h"
#include "compiler/ptx_mma.h"
#include "core/plan.h"
#include "kernels/matmul/emit_gpu.h"

namespace lathe::emit {
namespace {
using namespace mlir;

Value as_i32(Emit& e, Value index) {
  const auto known = Emit::known(index);
  return known ? e.i32(*known) : e.to_i32(index);
}

// M. It is static if the class has a single M: if the tile's rows are no constant, A's type has it. Dynamic for grouped
// products, and if M is in device memory.
int64_t rows_of(TileProgram& p) {
  if (const auto rows = Emit::known(p.rows)) return *rows;
  Value a = p.contraction.getDpsInputs()[0];
  if (auto slice = a.getDefiningOp<tensor::ExtractSliceOp>()) a = slice.getSource();
  return cast<RankedTensorType>(a.getType()).getDimSize(1);
}

// The type in which weights are multiplied. Blocks are decoded to A's type, f32.
Type multiplied_type(TileProgram& p) {
  const bool blocks = p.views.find(p.contraction.getDpsInputs()[1])->second.blocks != DType::kNone;
  return getElementTypeOrSelf(p.contraction.getDpsInputs()[blocks ? 0 : 1]);
}

// AMD: how the plan multiplies; one of the two pointers is null.
struct AmdProducts {
  const MatrixInstruction* instruction = nullptr;
  const LaneProduct* lanes = nullptr;
};
AmdProducts products_of(const GpuKernel& kernel, TileProgram& p) {
  const DType type = dtype_of(multiplied_type(p));
  const absl::string_view arch(kernel.arch().data(), kernel.arch().size());
  AmdProducts products;
  if (kernel.config<SkinnyConfig>().matrix != 0)
    products.instruction = find_amd_instruction(arch, type, 16);
  else
    products.lanes = find_lane_product(arch, type);
  return products;
}

FailureOr<SkinnyShape> shape_of(GpuKernel& kernel, TileProgram& p, const AmdProducts& amd) {
  const auto& c = kernel.config<SkinnyConfig>();
  SkinnyInput in;
  if (kernel.rocm()) {
    if (!amd.instruction && !amd.lanes)
      return p.contraction.emitError("kernel_config: ")
             << kernel.arch() << " has no instruction for these operands";
    in.amd = true;
    in.wave = kernel.arch().starts_with("gfx9") ? 64 : 32;
    in.lane_groups = amd.instruction ? amd.instruction->groups : 1;
  }
  in.k_major = k_contiguous(p.contraction, 1);
  const int64_t m = rows_of(p);
  in.rows = ShapedType::isDynamic(m) ? c.tile_m : m, in.k = p.k, in.n = p.n;
  in.tile_n = c.tile_n, in.tile_k = c.chunk_k, in.group = c.columns;
  in.unroll_k = c.loads, in.threads = c.threads;
  in.element_bytes = multiplied_type(p).getIntOrFloatBitWidth() / 8;
  in.matrix = c.matrix != 0;
  SkinnyShape s(in);
  if (std::string defect = s.defect(); !defect.empty())
    return p.contraction.emitError("kernel_config: ") << defect;
  if (in.rows != c.tile_m || !k_contiguous(p.contraction, 0) || kernel.alignment() != Alignment::k16)
    return p.contraction.emitError(
        "matmul kernel 'skinny' needs M equal to tile_m, A contiguous along K, and rows aligned to 16 bytes");
  return s;
}

// The workgroups that share a tile of D, one for each split of K: those of a cluster, or a single one.
struct Sharing {
  int64_t count = 1;
  Value rank;  // i32: rank in the cluster
};

// Reads this workgroup's position in the grid again. Kept over the loop over the weights, it and what is
// computed from it would take registers that the loads need.
GridPosition block_afresh(Emit& e, const GpuKernel& kernel, const GpuStep& step) {
  if (kernel.rocm()) return step.block(e);
  const auto read = [&](const char* along) {
    return e.widen(
        inline_ptx(e, absl::StrCat("mov.u32 $0, %ctaid.", along, ";"), "=r", {}, e.b.getI32Type()));
  };
  return {read("x"), read("y"), read("z")};
}

// Passes the tile's sums to the sink; the sums of workgroups that share the tile are added in ascending order
// of the split. The warps of all of them take pairs of a row and a chunk of columns in turn. For
// matmul_argmax a lane takes four columns, so that the lanes of a warp combine once for 128 columns.
void write_sums(SkinnyTile& t, const Sharing& sharing, OutputSink& sink) {
  Emit& e = t.e;
  const int64_t lanes = t.shape.in.wave;
  const int64_t lane_columns = t.p.argmax && t.shape.in.tile_n > lanes ? 4 : 1, chunk = lane_columns * lanes;
  const int64_t chunks = (t.shape.in.tile_n + chunk - 1) / chunk, warps = t.shape.warps_n * t.shape.warps_k;
  Value sums = e.add(t.shared, t.shape.sums_at), first = e.div(t.thread, e.i32(lanes));
  if (sharing.count > 1) {
    cluster_barrier(e);
    first = e.add(first, e.mul(sharing.rank, warps));
  }
  e.loop(first, e.i32(t.shape.in.rows * chunks), warps * sharing.count, [&](Value pair) {
    Value row = e.div(pair, e.i32(chunks));
    Value first_column = e.add(e.mul(e.rem(pair, e.i32(chunks)), chunk), t.lane);
    Values columns, row_sums;
    for (int64_t c = 0; c < lane_columns; ++c) {
      Value column = e.add(first_column, c * lanes);
      Value inside = e.min(column, e.sub(t.columns, e.i32(1)));
      // Lanes beyond a narrow tile compare its last column again.
      columns.push_back(t.p.argmax ? inside : column);
      Value at = e.add(sums, e.mul(e.add(e.mul(row, t.shape.columns), inside), 4));
      Values parts;
      for (int64_t i = 0; i < sharing.count; ++i)
        parts.push_back(sharing.count == 1 ? t.load_shared(at, 0, 1)[0]
                                           : load_cluster(e, address_at(e, at, e.i32(i)), 0, 1, t.sum())[0]);
      row_sums.push_back(add_in_order(e, parts));
    }
    sink.row(row, columns, row_sums, t.kernel.rocm() ? 0 : static_cast<int32_t>(lanes - 1));
  });
  // No workgroup may exit while others read its shared memory.
  if (sharing.count > 1) cluster_barrier(e);
}

std::unique_ptr<SkinnyProducts> make_products(SkinnyTile& t) {
  if (t.kernel.rocm()) return t.instruction ? make_skinny_mfma(t) : make_skinny_dot(t);
  return t.shape.in.matrix ? make_skinny_mma(t) : make_skinny_fma(t);
}

}  // namespace

LogicalResult emit_skinny(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  Sharing sharing;
  if (kernel.config().split() == kMergeCluster) {
    sharing = {kernel.config<SkinnyConfig>().cluster_k, cluster_rank(e)};
    kernel.facts.cluster = {1, 1, sharing.count};
  }
  const GridPosition position = step.place_in_cluster(e, step.block(e), sharing.count);
  FailureOr<TileProgram> program = step.at(e, position);
  if (failed(program)) return failure();
  TileProgram& p = *program;
  const AmdProducts amd = kernel.rocm() ? products_of(kernel, p) : AmdProducts();
  FailureOr<SkinnyShape> shape = shape_of(kernel, p, amd);
  if (failed(shape)) return failure();

  SkinnyTile t{e, kernel, p, *shape, {}, {}, {}, {}, {}, {}, {}, {}, {}};
  t.instruction = amd.instruction, t.lanes = amd.lanes;
  t.has_all_rows = !ShapedType::isDynamic(rows_of(p));
  t.scales_of_b = scale_places(e, step, p, 1);
  const bool blocks = t.view(1).blocks != DType::kNone;
  if (blocks && (t.shape.in.matrix || !t.view(0).element.isF32()))
    return p.contraction.emitError("kernel_config: blocks are multiplied by f32 FMAs only");
  if (!kernel.rocm()) {
    // minctasm makes ptxas leave registers for as many threads as the plan assumes. It is left out where ptxas
    // widens 8-bit floats: with it ptxas 13.0 takes all 128 registers and spills, without it at most 108.
    const Type element = multiplied_type(p);
    const bool f8 = isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8;
    if (!f8 || !widens_f8(kernel.arch().str())) {
      const int64_t resident = SkinnyShape::kUnitThreads / kernel.threads();
      kernel.facts.function_attributes.emplace_back("nvvm.minctasm", std::to_string(resident));
    }
    // PTX 7.4 has cache hints for loads.
    kernel.facts.ptx = std::max<int64_t>(74, least_ptx_of_mma(element));
  }
  const Arguments& arguments = step.arguments();
  t.a = element_pointer(e, arguments.get("a"), t.view(0).offset, t.view(0).element);
  if (!blocks) t.b = element_pointer(e, arguments.get("b"), t.view(1).offset, t.view(1).element);
  t.depth = as_i32(e, p.depth), t.columns = as_i32(e, p.columns);
  t.thread = e.to_i32(kernel.thread());
  t.lane = e.rem(t.thread, e.i32(shape->in.wave));
  Value warp = e.div(t.thread, e.i32(shape->in.wave));
  // Tells LLVM that the wave's number is uniform, so that addresses of rows are computed in scalar registers.
  if (kernel.rocm()) warp = call_amd(e, "llvm.amdgcn.readfirstlane.i32", warp.getType(), warp);
  t.warp_n = e.rem(warp, e.i32(t.shape.warps_n)), t.warp_k = e.div(warp, e.i32(t.shape.warps_n));
  t.shared =
      LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI32Type(), kernel.dynamic_shared(t.shape.shared_bytes));
  const std::unique_ptr<SkinnyWeights> weights = blocks          ? make_skinny_blocks(t)
                                                 : kernel.rocm() ? make_skinny_loads(t)
                                                                 : make_skinny_weights(t);
  stream_weights(t, *weights, *make_products(t));

  const GridPosition again = step.place_in_cluster(
      e, step.is_grouped() ? step.block(e) : block_afresh(e, kernel, step), sharing.count);
  FailureOr<TileProgram> output = sharing.count > 1 ? step.merge_at(e, again) : step.at(e, again);
  if (failed(output)) return failure();
  std::unique_ptr<OutputSink> sink = make_sink(e, kernel, step, *output, again);
  t.barrier();
  t.columns = as_i32(e, output->columns);
  write_sums(t, sharing, *sink);
  return sink->done();
}

}  // namespace lathe::emit
