// lathe-distribute: tiles a matmul payload into one scf.forall per launch step, mapped to workgroups.
//
// Without a split there is one step:
//   forall (b, y, x) in (batch, ceil(N / tile_n), ceil(M / tile_m)):
//     D[b, tile] = epilogue(A[b, rows] * B[b, cols])
// With a split there are two. z has splits * batch values, and the last split is shorter (affine.min):
//   forall (z, y, x): W[s, b, tile] = A[b, rows, K of split s] * B[b, cols, K of split s]
//   forall (b, y, x): D[b, rows] = epilogue(sum of W[s, b, rows] over s, in ascending order)
// If the last workgroup to arrive merges, the second loop is over the same tiles and becomes part of the first
// kernel.
//
// x counts the tiles along M, so that workgroups launched together share columns of B, the weight. Also, only x
// may exceed 65535 on a GPU. Payloads of argmax are built with their scf.forall and need no distribution.
#include "compiler/dialect.h"
#include "compiler/mlir.h"
#include "compiler/passes.h"
#include "core/plan.h"

namespace lathe {
namespace {
using namespace mlir;

class MatmulDistribution {
 public:
  MatmulDistribution(func::FuncOp function, linalg::LinalgOp matmul, linalg::GenericOp epilogue)
      : function_(function),
        matmul_(matmul),
        epilogue_(epilogue),
        config_(matmul->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr)),
        loc_(matmul.getLoc()),
        b_(epilogue) {}

  LogicalResult run() {
    if (config_.tile_m() <= 0 || config_.tile_n() <= 0)
      return matmul_.emitError("kernel_config without a tile");
    auto out = cast<RankedTensorType>(epilogue_.getResult(0).getType());
    m_ = out.isDynamicDim(1) ? OpFoldResult(argument("m")) : attr(out.getDimSize(1));
    batch_ = argument("batch");
    n_ = out.isDynamicDim(2) ? OpFoldResult(argument("n")) : attr(out.getDimSize(2));
    auto a = cast<RankedTensorType>(matmul_.getDpsInputs()[0].getType());
    AffineMap map = matmul_.getMatchingIndexingMap(matmul_.getDpsInputOperand(0));
    for (auto [i, r] : llvm::enumerate(map.getResults()))
      if (cast<AffineDimExpr>(r).getPosition() == 3)
        k_ = a.isDynamicDim(i) ? OpFoldResult(argument("k")) : attr(a.getDimSize(i));
    Value result = config_.split() ? merge(partials()) : single();
    epilogue_.getResult(0).replaceAllUsesWith(result);
    epilogue_.erase();
    for (Operation* dead : {matmul_.getOperation(), matmul_.getDpsInits()[0].getDefiningOp()}) dead->erase();
    return success();
  }

 private:
  using Sizes = SmallVector<OpFoldResult>;

  Value argument(StringRef name) {
    for (BlockArgument a : function_.getArguments()) {
      auto attribute = function_.getArgAttrOfType<StringAttr>(a.getArgNumber(), ir::kOperandAttr);
      if (attribute && attribute.getValue() == name) return a;
    }
    return nullptr;
  }
  OpFoldResult attr(int64_t v) { return b_.getIndexAttr(v); }
  AffineExpr dim(unsigned i) { return b_.getAffineDimExpr(i); }
  OpFoldResult apply(OpBuilder& b, AffineExpr e, ArrayRef<OpFoldResult> values) {
    return affine::makeComposedFoldedAffineApply(b, loc_, AffineMap::get(values.size(), 0, e), values);
  }
  // min(tile, bound - at)
  OpFoldResult clip(OpBuilder& b, OpFoldResult tile, OpFoldResult bound, OpFoldResult at) {
    AffineMap map = AffineMap::get(3, 0, {dim(0), dim(1) - dim(2)}, b.getContext());
    return affine::makeComposedFoldedAffineMin(b, loc_, map, {tile, bound, at});
  }
  OpFoldResult tiles(OpFoldResult size, int64_t tile) { return apply(b_, dim(0).ceilDiv(tile), {size}); }

  // The slice of `operand` that the loop ranges [offsets, offsets + sizes) access through `map`.
  Value slice(OpBuilder& b, Value operand, AffineMap map, ArrayRef<OpFoldResult> offsets,
              ArrayRef<OpFoldResult> sizes) {
    Sizes o, s, strides;
    for (AffineExpr e : map.getResults()) {
      unsigned d = cast<AffineDimExpr>(e).getPosition();
      o.push_back(offsets[d]), s.push_back(sizes[d]), strides.push_back(attr(1));
    }
    return tensor::ExtractSliceOp::create(b, loc_, operand, o, s, strides);
  }

  // A tensor of zeros with the accumulators' type, f32 or i32.
  Value zeros(OpBuilder& b, ArrayRef<OpFoldResult> sizes) {
    Type type = getElementTypeOrSelf(matmul_->getResult(0).getType());
    Value zero = arith::ConstantOp::create(b, loc_, b.getZeroAttr(type));
    Value empty = tensor::EmptyOp::create(b, loc_, sizes, type);
    return linalg::FillOp::create(b, loc_, zero, empty).getResult(0);
  }

  // The matmul of one tile. Offsets and sizes are of the loops (b, m, n, k).
  Value tile_matmul(OpBuilder& b, ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes) {
    SmallVector<Value> operands;
    for (OpOperand* input : matmul_.getDpsInputOperands())
      operands.push_back(slice(b, input->get(), matmul_.getMatchingIndexingMap(input), offsets, sizes));
    operands.push_back(zeros(b, sizes.take_front(3)));
    return clone(b, matmul_, operands.back().getType(), operands)->getResult(0);
  }

  // The epilogue of one tile with the products `ab`. Offsets and sizes are of the loops (b, m, n). The output
  // is a slice of `out`.
  Value tile_epilogue(OpBuilder& b, Value ab, Value out, ArrayRef<OpFoldResult> offsets,
                      ArrayRef<OpFoldResult> sizes) {
    SmallVector<Value> operands = {ab};
    const auto inputs = epilogue_.getDpsInputOperands();  // by value
    for (OpOperand* input : llvm::drop_begin(inputs))
      operands.push_back(slice(b, input->get(), epilogue_.getMatchingIndexingMap(input), offsets, sizes));
    operands.push_back(
        slice(b, out, epilogue_.getMatchingIndexingMap(epilogue_.getDpsInitOperand(0)), offsets, sizes));
    return clone(b, epilogue_, operands.back().getType(), operands)->getResult(0);
  }

  scf::ForallOp forall(ArrayRef<OpFoldResult> bounds, Value out, StringRef step) {
    MLIRContext* context = b_.getContext();
    auto block = [&](gpu::MappingId id) { return gpu::GPUBlockMappingAttr::get(context, id); };
    ArrayAttr mapping = b_.getArrayAttr(
        {block(gpu::MappingId::DimZ), block(gpu::MappingId::DimY), block(gpu::MappingId::DimX)});
    auto op = scf::ForallOp::create(b_, loc_, bounds, ValueRange(out), mapping);
    op->setAttr(ir::kStepAttr, b_.getStringAttr(step));
    return op;
  }
  void insert(scf::ForallOp op, Value tile, ArrayRef<OpFoldResult> offsets, ArrayRef<OpFoldResult> sizes) {
    OpBuilder b = OpBuilder::atBlockBegin(op.getTerminator().getBody());
    Sizes strides(offsets.size(), attr(1));
    tensor::ParallelInsertSliceOp::create(b, loc_, tile, op.getRegionIterArgs()[0], offsets, sizes, strides);
  }

  Value single() {
    Value out = epilogue_.getDpsInits()[0];
    int64_t tm = config_.tile_m(), tn = config_.tile_n();
    auto op = forall({batch_, tiles(n_, tn), tiles(m_, tm)}, out, function_.getName());
    OpBuilder b = OpBuilder::atBlockTerminator(op.getBody());
    SmallVector<Value> iv = op.getInductionVars();
    OpFoldResult m0 = apply(b, dim(0) * tm, {iv[2]}), n0 = apply(b, dim(0) * tn, {iv[1]});
    Sizes offsets = {iv[0], m0, n0, attr(0)};
    Sizes sizes = {attr(1), clip(b, attr(tm), m_, m0), clip(b, attr(tn), n_, n0), k_};
    Value ab = tile_matmul(b, offsets, sizes);
    ArrayRef<OpFoldResult> o = offsets, s = sizes;
    Value tile = tile_epilogue(b, ab, op.getRegionIterArgs()[0], o.take_front(3), s.take_front(3));
    insert(op, tile, o.take_front(3), s.take_front(3));
    return op.getResult(0);
  }

  Value partials() {
    Value splits = argument("splits"), k_chunk = argument("k_chunk");
    int64_t tm = config_.tile_m(), tn = config_.tile_n();
    OpFoldResult z = apply(b_, dim(0) * b_.getAffineSymbolExpr(0), {splits, batch_}, 1);
    auto op = forall({z, tiles(n_, tn), tiles(m_, tm)}, argument("workspace"), function_.getName());
    OpBuilder b = OpBuilder::atBlockTerminator(op.getBody());
    SmallVector<Value> iv = op.getInductionVars();
    AffineExpr symbol = b_.getAffineSymbolExpr(0);
    OpFoldResult s = apply(b, dim(0).floorDiv(symbol), {iv[0], batch_}, 1);
    OpFoldResult batch = apply(b, dim(0) % symbol, {iv[0], batch_}, 1);
    OpFoldResult m0 = apply(b, dim(0) * tm, {iv[2]}), n0 = apply(b, dim(0) * tn, {iv[1]});
    OpFoldResult k0 = apply(b, dim(0) * symbol, {s, k_chunk}, 1);
    Sizes offsets = {batch, m0, n0, k0};
    Sizes sizes = {attr(1), clip(b, attr(tm), m_, m0), clip(b, attr(tn), n_, n0), clip(b, k_chunk, k_, k0)};
    Value ab = tile_matmul(b, offsets, sizes);
    insert(op, ab, {s, batch, m0, n0}, {attr(1), attr(1), sizes[1], sizes[2]});
    return op.getResult(0);
  }

  // With kMergeStep, a workgroup merges merge_rows() rows of one column tile, so that the step has many
  // workgroups. With kMergeLast and kMergeCluster, a workgroup merges one tile of the partial results.
  Value merge(Value partials) {
    Value out = epilogue_.getDpsInits()[0];
    OpFoldResult splits = argument("splits");
    const int64_t tn = config_.tile_n();
    const int64_t tm = config_.split() == kMergeStep ? merge_rows(config_.threads(), static_cast<int32_t>(tn))
                                                     : config_.tile_m();
    auto op = forall({batch_, tiles(n_, tn), tiles(m_, tm)}, out, (function_.getName() + "_merge").str());
    OpBuilder b = OpBuilder::atBlockTerminator(op.getBody());
    SmallVector<Value> iv = op.getInductionVars();
    OpFoldResult m0 = apply(b, dim(0) * tm, {iv[2]}), n0 = apply(b, dim(0) * tn, {iv[1]});
    Sizes offsets = {iv[0], m0, n0};
    Sizes sizes = {attr(1), clip(b, attr(tm), m_, m0), clip(b, attr(tn), n_, n0)};
    Sizes strides(4, attr(1));
    Value part = tensor::ExtractSliceOp::create(b, loc_, partials, Sizes{attr(0), iv[0], m0, n0},
                                                Sizes{splits, attr(1), sizes[1], sizes[2]}, strides);
    MLIRContext* context = b.getContext();
    SmallVector<AffineMap> maps = {AffineMap::getMultiDimIdentityMap(4, context),
                                   AffineMap::get(4, 0, {dim(1), dim(2), dim(3)}, context)};
    SmallVector<utils::IteratorType> iterators(4, utils::IteratorType::parallel);
    iterators[0] = utils::IteratorType::reduction;
    Value init = zeros(b, sizes);
    Value sum = linalg::GenericOp::create(
                    b, loc_, init.getType(), ValueRange(part), ValueRange(init), maps, iterators,
                    [&](OpBuilder& body, Location loc, ValueRange args) {
                      const bool integers = args[0].getType().isInteger();
                      Value s = integers ? Value(arith::AddIOp::create(body, loc, args[1], args[0]))
                                         : Value(arith::AddFOp::create(body, loc, args[1], args[0]));
                      linalg::YieldOp::create(body, loc, s);
                    })
                    .getResult(0);
    Value tile = tile_epilogue(b, sum, op.getRegionIterArgs()[0], offsets, sizes);
    insert(op, tile, offsets, sizes);
    return op.getResult(0);
  }

  // An affine.apply whose last `symbols` values are symbols (launch arguments).
  OpFoldResult apply(OpBuilder& b, AffineExpr e, ArrayRef<OpFoldResult> values, unsigned symbols) {
    return affine::makeComposedFoldedAffineApply(b, loc_, AffineMap::get(values.size() - symbols, symbols, e),
                                                 values);
  }

  func::FuncOp function_;
  linalg::LinalgOp matmul_;
  linalg::GenericOp epilogue_;
  ir::KernelConfigAttr config_;
  Location loc_;
  OpBuilder b_;
  OpFoldResult m_, n_, k_;
  Value batch_;
};

struct DistributePass : PassWrapper<DistributePass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DistributePass)
  StringRef getArgument() const override { return "lathe-distribute"; }
  StringRef getDescription() const override {
    return "Tile payload ops into workgroups as their kernel_config says";
  }
  void getDependentDialects(DialectRegistry& registry) const override {
    registry.insert<affine::AffineDialect, gpu::GPUDialect, scf::SCFDialect, tensor::TensorDialect>();
  }
  void runOnOperation() override {
    SmallVector<linalg::LinalgOp> matmuls;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op->hasAttr(ir::kConfigAttr) && op.getNumLoops() == 4) matmuls.push_back(op);
    });
    for (linalg::LinalgOp op : matmuls) {
      auto epilogue = op->hasOneUse() ? dyn_cast<linalg::GenericOp>(*op->user_begin()) : linalg::GenericOp();
      if (!epilogue) {
        op.emitError("expected one linalg.generic epilogue as the only user");
        return signalPassFailure();
      }
      if (failed(MatmulDistribution(getOperation(), op, epilogue).run())) return signalPassFailure();
    }
  }
};

}  // namespace

std::unique_ptr<Pass> make_distribute_pass() { return std::make_unique<DistributePass>(); }

}  // namespace lathe
