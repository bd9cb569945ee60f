// A subgroup of 16 lanes computes register_m x register_n of the workgroup's tile with dpas, which multiplies
// a block of A (8 x 16) by one of B (16 x 16) and adds to 8 x 16 accumulators; each lane holds a column of
// them. 2D block loads bring the blocks from memory to registers in dpas's layout; elements outside the
// operand or the split read as zero.
#include "kernels/matmul/xegpu/emit.h"

#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/xegpu/shape.h"
#include "mlir/Dialect/XeGPU/IR/XeGPU.h"

namespace lathe::emit {
namespace {
using namespace mlir;

constexpr int64_t kLanes = XegpuShape::kLanes, kRows = XegpuShape::kRows, kColumns = XegpuShape::kColumns,
                  kDepth = XegpuShape::kDepth;

// Descriptor of the matrix that contains a tile's view: `rows` by `columns` of the view's elements, loaded as
// words of type `element`. `first`: offset of the view in the matrix.
Value describe(Emit& e, const View& view, Value first, Type element, ArrayRef<int64_t> block, Value rows,
               Value columns) {
  const int64_t narrow = element.getIntOrFloatBitWidth() / view.element.getIntOrFloatBitWidth();
  Value address = pointer_to(e, view.memory, e.sub(view.offset, first));
  Value base = LLVM::PtrToIntOp::create(e.b, e.loc, e.b.getI64Type(), address);
  const auto words = [&](Value elements) { return e.div(elements, e.idx(narrow)); };
  SmallVector<OpFoldResult> shape = {rows, words(columns)};
  SmallVector<OpFoldResult> strides = {words(view.row_stride), e.b.getIndexAttr(1)};
  Type type = xegpu::TensorDescType::get(block, element, /*array_length=*/1, /*boundary_check=*/true);
  return xegpu::CreateNdDescOp::create(e.b, e.loc, type, base, shape, strides);
}

Value load_block(Emit& e, Value descriptor, Value row, Value column, VectorType lane, bool packed,
                 bool transposed) {
  SmallVector<OpFoldResult> at = {row, column};
  return xegpu::LoadNdOp::create(e.b, e.loc, lane, descriptor, at, packed ? e.b.getUnitAttr() : UnitAttr(),
                                 transposed ? e.b.getDenseI64ArrayAttr({1, 0}) : DenseI64ArrayAttr(),
                                 xegpu::CachePolicyAttr(), xegpu::CachePolicyAttr(), xegpu::CachePolicyAttr(),
                                 /*layout=*/nullptr);
}

class XegpuTile {
 public:
  XegpuTile(Emit& e, GpuKernel& kernel, const GpuStep& step, TileProgram& p)
      : e_(e),
        p_(p),
        a_(p.views.find(p.contraction.getDpsInputs()[0])->second),
        b_(p.views.find(p.contraction.getDpsInputs()[1])->second),
        b_along_k_(k_contiguous(p.contraction, 1)),
        blocks_m_(kernel.config<XegpuConfig>().register_m / kRows),
        blocks_n_(kernel.config<XegpuConfig>().register_n / kColumns),
        tile_k_(kernel.config<XegpuConfig>().tile_k) {
    const int64_t places = kernel.config<XegpuConfig>().tile_n / kernel.config<XegpuConfig>().register_n;
    Value subgroup = gpu::SubgroupIdOp::create(e.b, e.loc, e.index(), /*upper_bound=*/IntegerAttr());
    lane_ = gpu::LaneIdOp::create(e.b, e.loc, e.index(), /*upper_bound=*/IntegerAttr());
    row_ = e.mul(e.div(subgroup, e.idx(places)), kernel.config<XegpuConfig>().register_m);
    column_ = e.mul(e.rem(subgroup, e.idx(places)), kernel.config<XegpuConfig>().register_n);

    // The descriptors cover the whole operands, but K ends where this split ends.
    Value end = e.add(p.depth0, p.depth), n = step.arguments().get("n");
    Value first_a = e.add(e.mul(p.row0, a_.row_stride), p.depth0);
    a_blocks_ = describe(e, a_, first_a, a_.element, {kRows, kDepth}, step.arguments().get("m"), end);
    if (b_along_k_) {
      // Pairs of k as words of 32 bits, which the load transposes into dpas's order.
      Value first = e.add(e.mul(p.column0, b_.row_stride), p.depth0);
      b_blocks_ = describe(e, b_, first, e.b.getI32Type(), {kColumns, kDepth / 2}, n, end);
    } else {
      Value first = e.add(e.mul(p.depth0, b_.row_stride), p.column0);
      b_blocks_ = describe(e, b_, first, b_.element, {kDepth, kColumns}, end, n);
    }
  }

  void emit(OutputSink& sink) {
    Values sums(blocks_m_ * blocks_n_, e_.zero(e_.vec(kRows, e_.f32())));
    sums = e_.loop(e_.idx(0), p_.depth, tile_k_, sums, [&](Value k0, const Values& in) {
      Values out = in;
      for (int64_t u = 0; u < tile_k_; u += kDepth) multiply(e_.add(e_.add(p_.depth0, k0), u), out);
      return out;
    });
    write(sums, sink);
  }

 private:
  void multiply(Value k, Values& sums) {
    Values a, b;
    for (int64_t i = 0; i < blocks_m_; ++i)
      a.push_back(load_block(e_, a_blocks_, e_.add(e_.add(p_.row0, row_), i * kRows), k,
                             e_.vec(kRows, a_.element), /*packed=*/false, /*transposed=*/false));
    for (int64_t j = 0; j < blocks_n_; ++j)
      b.push_back(load_b(k, e_.add(e_.add(p_.column0, column_), j * kColumns)));
    for (int64_t i = 0; i < blocks_m_; ++i)
      for (int64_t j = 0; j < blocks_n_; ++j) {
        Value& sum = sums[i * blocks_n_ + j];
        sum = xegpu::DpasOp::create(e_.b, e_.loc, sum.getType(), a[i], b[j], sum, nullptr, nullptr, nullptr);
      }
  }

  Value load_b(Value k, Value column) {
    VectorType lane = e_.vec(kDepth, b_.element);
    if (!b_along_k_) return load_block(e_, b_blocks_, k, column, lane, /*packed=*/true, /*transposed=*/false);
    Value words =
        load_block(e_, b_blocks_, column, e_.div(k, e_.idx(2)), e_.vec(kDepth / 2, e_.b.getI32Type()),
                   /*packed=*/false, /*transposed=*/true);
    return vector::BitCastOp::create(e_.b, e_.loc, lane, words);
  }

  // A loop over the rows of a block, so that the epilogue's code is emitted once per block, not once per accumulator.
  void write(const Values& sums, OutputSink& sink) {
    Values columns;
    for (int64_t j = 0; j < blocks_n_; ++j) columns.push_back(e_.add(e_.add(column_, j * kColumns), lane_));
    for (int64_t i = 0; i < blocks_m_; ++i)
      e_.loop(e_.idx(0), e_.idx(kRows), 1, [&](Value r) {
        Values row;
        for (int64_t j = 0; j < blocks_n_; ++j)
          row.push_back(vector::ExtractOp::create(e_.b, e_.loc, sums[i * blocks_n_ + j], r));
        sink.row(e_.add(e_.add(row_, i * kRows), r), columns, row);
      });
  }

  Emit& e_;
  TileProgram& p_;
  const View &a_, &b_;
  bool b_along_k_;
  int64_t blocks_m_, blocks_n_, tile_k_;
  Value lane_, row_, column_;  // the lane, and the subgroup's first row and column in the tile
  Value a_blocks_, b_blocks_;
};

LogicalResult check(GpuKernel& kernel, TileProgram& p) {
  const auto& c = kernel.config<XegpuConfig>();
  if (c.register_m % kRows != 0 || c.register_n % kColumns != 0 || c.tile_k % kDepth != 0 ||
      c.register_m < 1 || c.register_n < 1 || c.tile_k < 1 || c.tile_m % c.register_m != 0 ||
      c.tile_n % c.register_n != 0 ||
      c.tile_m / c.register_m * (c.tile_n / c.register_n) * kLanes != c.threads)
    return p.contraction.emitError("kernel_config: the blocks of all subgroups do not fill the tile exactly");
  const Type element = getElementTypeOrSelf(p.contraction.getDpsInputs()[0].getType());
  if (!element.isF16() && !element.isBF16())
    return p.contraction.emitError("matmul kernel 'xegpu' supports f16 and bf16 only, not ") << element;
  if (!k_contiguous(p.contraction, 0))
    return p.contraction.emitError("matmul kernel 'xegpu' needs K contiguous in A");
  return success();
}

}  // namespace

LogicalResult emit_xegpu(Emit& e, GpuKernel& kernel, const GpuStep& step) {
  GridPosition block = step.block(e);
  FailureOr<TileProgram> program = step.at(e, block);
  if (failed(program) || failed(check(kernel, *program))) return failure();
  e.b.getInsertionBlock()->getParentOp()->setAttr("intel_reqd_sub_group_size", e.b.getI32IntegerAttr(kLanes));
  std::unique_ptr<OutputSink> sink = make_sink(e, kernel, step, *program, block);
  XegpuTile(e, kernel, step, *program).emit(*sink);
  return sink->done();
}

}  // namespace lathe::emit
