// The roles of the warpgroups in a "wgmma" workgroup, and the tiles it computes.
#include "kernels/matmul/wgmma/emit.h"

#include "core/plan.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/grouped/emit.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// Whether WgmmaConfig::plain_store is possible: D has 2-byte elements and a cheap epilogue that reads no operand of
// D's size.
bool stores_plainly(TileProgram& program) {
  if (!program.epilogue || program.output.element.getIntOrFloatBitWidth() != 16) return false;
  const auto operands = program.epilogue.getDpsInputs();  // by value
  for (Value input : llvm::drop_begin(operands))
    if (Emit::known(program.views.find(input)->second.row_stride) != 0) return false;
  return llvm::none_of(*program.epilogue.getBody(),
                       [](Operation& op) { return isa<math::MathDialect>(op.getDialect()); });
}

// The format of an operand's blocks, or kNone.
DType blocks_of(const TileProgram& program, unsigned operand) {
  linalg::LinalgOp contraction = program.contraction;
  return program.views.find(contraction.getDpsInputs()[operand])->second.blocks;
}
// The type of an operand's elements; in blocks, of their codes.
Type element_of(const TileProgram& program, unsigned operand) {
  linalg::LinalgOp contraction = program.contraction;
  const DType blocks = blocks_of(program, operand);
  if (blocks == DType::kNone) return getElementTypeOrSelf(contraction.getDpsInputs()[operand].getType());
  MLIRContext* context = contraction->getContext();
  if (wgmma_element(blocks) == DType::kF8E5M2) return Float8E5M2Type::get(context);
  return Float8E4M3FNType::get(context);
}

WgmmaInput input_of(const WgmmaConfig& c, Rows rows, TileProgram& program) {
  WgmmaInput in;
  in.tile_m = c.tile_m, in.tile_n = c.tile_n, in.tile_k = c.tile_k;
  in.stages = c.stages, in.threads = c.threads;
  in.cluster_m = c.cluster_m, in.cluster_n = c.cluster_n, in.cluster_k = c.cluster_k;
  in.swap = c.transposed != 0;
  Type element = element_of(program, 0);
  in.scaled = wgmma_scaled(blocks_of(program, 0), blocks_of(program, 1));
  in.element_bytes = element.getIntOrFloatBitWidth() / 8;
  in.promotes = in.element_bytes == 1 && isa<FloatType>(element);
  in.compares = program.argmax != nullptr;
  in.plain_store = c.plain_store != 0;
  in.lists_rows = lists_rows(rows);
  in.a_k_major = k_contiguous(program.contraction, 0);
  in.b_k_major = k_contiguous(program.contraction, 1);
  return in;
}

// Why the emitter does not support the plan, "" if it does.
std::string refusal(GpuKernel& kernel, const GpuStep& step, TileProgram& program, const WgmmaShape& shape) {
  const auto& c = kernel.config<WgmmaConfig>();
  if (kernel.arch() != "sm_90a") return absl::StrCat(kernel.arch().str(), " has no wgmma");
  if (kernel.alignment() != Alignment::k16) return "rows are not aligned to 16 bytes";
  const DType blocks[] = {blocks_of(program, 0), blocks_of(program, 1)};
  const bool supported = is_blocks(blocks[0]) == is_blocks(blocks[1]) &&
                         (!is_blocks(blocks[0]) || (wgmma_element(blocks[0]) != DType::kNone &&
                                                    wgmma_element(blocks[1]) != DType::kNone));
  if (!supported || !multiplies_in_warpgroup(element_of(program, 0), element_of(program, 1)))
    return "wgmma does not support these operand types";
  if (!shape.defect().empty()) return shape.defect();
  if (c.register_m != shape.register_m() || c.register_n != shape.register_n())
    return absl::StrCat("a warpgroup computes ", shape.register_m(), " x ", shape.register_n(), " of D, not ",
                        c.register_m, " x ", c.register_n);
  if (c.plain_store && (shape.in.compares || c.split != kNoSplit || !stores_plainly(program)))
    return "plain_store needs 2-byte elements of D, a cheap epilogue without an operand of D's size, and one "
           "split";
  const bool merges = c.split == kMergeCluster || (c.split == kMergeLast && !shape.in.compares);
  if (c.persistent && merges) return "a persistent kernel cannot merge splits";
  if (c.cluster_m * c.cluster_n > 1 && !c.persistent)
    return "a cluster along M or N needs a persistent kernel";
  if ((c.split == kMergeCluster) != (c.cluster_k > 1))
    return "cluster_k must be greater than 1 if splits are merged in the cluster, and 1 otherwise";
  if (step.is_grouped() && (!c.persistent || c.plain_store || c.cluster_m > 1))
    return "a grouped product needs a persistent kernel that stores rows one by one, without a cluster along "
           "M";
  if (c.cluster_m > 1 && c.cluster_n > 1) return "cluster_m and cluster_n cannot both be greater than 1";
  if (c.cluster_k > 1 && c.cluster_m * c.cluster_n > 1) return "a cluster along K cannot extend along M or N";
  return "";
}

}  // namespace

WgmmaKernel::WgmmaKernel(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& program,
                         const WgmmaShape& shape)
    : e_(e),
      kernel_(kernel),
      step_(step),
      shape_(shape),
      cluster_(shape.in.cluster_m * shape.in.cluster_n),
      n_(program.n) {
  constexpr const char* kOperands[] = {"a", "b"};
  Type elements[2];
  for (int i = 0; i < 2; ++i) {
    elements[i] = element_of(program, i);
    if (i == 0 && shape.in.lists_rows) continue;  // threads copy the rows
    const WgmmaOperand& x = i == 0 ? shape.a : shape.b;
    TensorMap map;
    map.operand = kOperands[i];
    map.dtype = dtype_of(elements[i]);
    const Var across = i == 0 ? Var::kM : Var::kN;
    map.columns = x.k_major ? Var::kK : across;
    map.rows = x.k_major ? across : Var::kK;
    map.box_columns = static_cast<int32_t>(x.box_columns);
    map.box_rows = static_cast<int32_t>(x.box_rows);
    map.swizzle = WgmmaShape::kRow;
    map.shared_rows = i == 0 && rows_of(kernel.module()) == Rows::kCounts;
    maps_[i] = kernel.tensor_map(map);
    batch_strides_[i] = step.arguments().get(i == 0 ? "stride_a" : "stride_b");
  }
  if (shape.copies_out()) {
    TensorMap map;
    map.operand = "d";
    map.dtype = dtype_of(program.output.element);
    map.columns = Var::kN, map.rows = Var::kM;
    map.box_columns = WgmmaShape::kBoxColumns, map.box_rows = WgmmaShape::kBoxRows;
    map.swizzle = WgmmaShape::kRow;
    map_out_ = kernel.tensor_map(map);
  }
  product_.a = elements[shape.in.swap ? 1 : 0], product_.b = elements[shape.in.swap ? 0 : 1];
  product_.sum = isa<IntegerType>(elements[0]) ? Type(e.b.getI32Type()) : e.f32();
  product_.n = shape.q().width;
  product_.blocks = shape.blocks;
  product_.steps = shape.steps;
  product_.a_k_major = shape.p().k_major;
  product_.b_k_major = shape.q().k_major;
}

LogicalResult WgmmaKernel::emit() {
  const int64_t ranks = cluster_ * shape_.in.cluster_k;
  kernel_.facts.function_attributes.push_back({"nvvm.minctasm", absl::StrCat(shape_.resident)});
  if (cluster_ > 1) kernel_.facts.cluster = {cluster_, 1, 1};
  if (shape_.in.cluster_k > 1) kernel_.facts.cluster = {1, 1, shape_.in.cluster_k};
  Value memory = kernel_.dynamic_shared(shape_.shared_bytes);
  shared_ = LLVM::PtrToIntOp::create(e_.b, e_.loc, e_.b.getI32Type(), memory);
  thread_ = e_.to_i32(kernel_.thread());
  warp_ = uniform_warp(e_, thread_);
  lane_ = e_.rem(thread_, e_.i32(32));
  if (ranks > 1) rank_ = cluster_rank(e_);
  initialize_barriers();
  kernel_.wait_for_earlier_kernel();

  Value multiplies = e_.less(warp_, e_.i32(4 * shape_.consumers));
  e_.choose(
      multiplies, {},
      [&] {
        if (shape_.consumer_registers) increase_registers(e_, shape_.consumer_registers);
        consume();
        return Values{};
      },
      [&] {
        if (shape_.producer_registers) decrease_registers(e_, shape_.producer_registers);
        produce();
        if (shape_.in.cluster_k > 1) cluster_barrier(e_);  // the consumers wait here before they merge
        return Values{};
      });
  // A workgroup's shared memory must outlive its neighbours' copies, arrivals and reads.
  if (ranks > 1) cluster_barrier(e_);
  return result_;
}

void WgmmaKernel::initialize_barriers() {
  e_.when(e_.equal(thread_, e_.i32(0)), [&] {
    for (Value map : maps_)
      if (map) prefetch_map(e_, map);
    if (map_out_) prefetch_map(e_, map_out_);
    for (int64_t s = 0; s < shape_.in.stages; ++s) {
      init_barrier(e_, full(e_.i32(s)), shape_.has_loaders() ? 2 : 1);
      // Every consumer warp of the workgroups that share copies arrives once it has read the stage.
      init_barrier(e_, empty(e_.i32(s)), 4 * shape_.consumers * cluster_);
    }
    fence_barrier_init(e_);
  });
  if (rank_)
    cluster_barrier(e_);
  else
    kernel_.barrier();
}

Value WgmmaKernel::full(Value stage) {
  return e_.add(e_.add(shared_, e_.mul(stage, 16)), shape_.barriers_at);
}
Value WgmmaKernel::empty(Value stage) {
  return e_.add(e_.add(shared_, e_.mul(stage, 16)), shape_.barriers_at + 8);
}

PipelineState WgmmaKernel::advance(PipelineState s) {
  Value next = e_.add(s.stage, 1), wraps = e_.equal(next, e_.i32(shape_.in.stages));
  Value turned = arith::XOrIOp::create(e_.b, e_.loc, s.parity,
                                       arith::ExtUIOp::create(e_.b, e_.loc, e_.b.getI32Type(), wraps));
  return {arith::SelectOp::create(e_.b, e_.loc, wraps, e_.i32(0), next), turned};
}

// If the kernel is not persistent: one tile per workgroup, at its position in the grid.
GridPosition WgmmaKernel::own_tile() {
  return step_.place_in_cluster(e_, step_.block(e_), shape_.in.cluster_k);
}

// The tile with number `linear` in the order of a persistent kernel: `raster` clusters along M, then the next
// along N, so that tiles that run together share parts of A and B in L2.
WgmmaKernel::Tile WgmmaKernel::tile_at(Value linear, const GridPosition& tiles, const RowReaders& readers) {
  const int64_t cm = shape_.in.cluster_m, cn = shape_.in.cluster_n;
  Value tiles_x = e_.to_i32(tiles.x), tiles_y = e_.to_i32(tiles.y);
  Value x = e_.ceil_div(tiles_x, e_.i32(cm)), y = e_.ceil_div(tiles_y, e_.i32(cn));
  Value raster = e_.i32(std::max<int64_t>(kernel_.config<WgmmaConfig>().raster, 1));
  Value plane = e_.mul(x, y), z = e_.div(linear, plane), in_plane = e_.rem(linear, plane);
  Value band = e_.mul(raster, y), first = e_.mul(e_.div(in_plane, band), raster),
        in_band = e_.rem(in_plane, band);
  Value height = e_.min(raster, e_.sub(x, first));
  Value at_x = e_.add(first, e_.rem(in_band, height)), at_y = e_.div(in_band, height);
  Value exists;
  if (cluster_ > 1) {
    at_x = e_.add(e_.mul(at_x, cm), e_.rem(rank_, e_.i32(cm)));
    at_y = e_.add(e_.mul(at_y, cn), e_.div(rank_, e_.i32(cm)));
    exists = arith::AndIOp::create(e_.b, e_.loc, e_.less(at_x, tiles_x), e_.less(at_y, tiles_y));
  }
  const GridPosition position = {e_.widen(at_x), e_.widen(at_y), e_.widen(z)};
  if (!step_.group_tiles()) return {position, exists, step_};
  const GpuStep step = step_.group_tiles()->tile(position.x, readers);
  return {{e_.idx(0), position.y, step.rows()->group}, exists, step};
}

// The number of tiles in each direction. Those of a grouped product are in a row along M.
GridPosition WgmmaKernel::all_tiles() {
  GridPosition tiles = step_.tiles(e_);
  if (GroupTiles* of_groups = step_.group_tiles()) tiles.x = of_groups->count(), tiles.z = e_.idx(1);
  return tiles;
}

// i32 is enough to count tiles: each has at least 512 elements of D, so 2^31 of them do not fit in memory.
PipelineState WgmmaKernel::for_each_tile(
    const RowReaders& readers, const std::function<PipelineState(const Tile&, PipelineState)>& body) {
  const PipelineState fresh = {e_.i32(0), e_.i32(0)};
  const int64_t workgroups = kernel_.config<WgmmaConfig>().persistent;
  if (!workgroups) return body({own_tile(), nullptr, step_}, fresh);
  GridPosition tiles = all_tiles();
  Value x = e_.ceil_div(e_.to_i32(tiles.x), e_.i32(shape_.in.cluster_m));
  Value y = e_.ceil_div(e_.to_i32(tiles.y), e_.i32(shape_.in.cluster_n));
  Value total = e_.mul(e_.mul(x, y), e_.to_i32(tiles.z));
  Value first = e_.div(e_.to_i32(step_.block(e_).x), e_.i32(cluster_));
  Values last =
      e_.loop(first, total, workgroups / cluster_, fresh.values(), [&](Value t, const Values& carried) {
        return body(tile_at(t, tiles, readers), PipelineState::of(carried)).values();
      });
  return PipelineState::of(last);
}

LogicalResult emit_wgmma(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  FailureOr<TileProgram> program = step.at(e, step.block(e));
  if (failed(program)) return failure();
  const WgmmaShape shape(input_of(kernel.config<WgmmaConfig>(), rows_of(kernel.module()), *program));
  const std::string reason = refusal(kernel, step, *program, shape);
  if (!reason.empty()) return program->contraction.emitError("matmul kernel 'wgmma': ") << reason;
  return WgmmaKernel(e, kernel, step, *program, shape).emit();
}

}  // namespace lathe::emit
