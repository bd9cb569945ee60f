// Turns one step of a distributed payload (scf.forall over tiles of linalg ops) into a TileProgram (emit.h).
#include "compiler/dialect.h"
#include "compiler/emit.h"
#include "compiler/open_view.h"
#include "core/problem.h"

namespace lathe::emit {
namespace {
using namespace mlir;

// The field of the argument block that a payload value stands for; empty if it is not an argument of the
// payload. `attribute` selects another string attribute of that argument. Looks through the shared outputs of a
// forall, inside and after it.
StringRef operand_name(Value v, StringRef attribute = ir::kOperandAttr) {
  if (auto forall = v.getDefiningOp<scf::ForallOp>())
    return operand_name(forall.getOutputs()[cast<OpResult>(v).getResultNumber()], attribute);
  auto argument = dyn_cast<BlockArgument>(v);
  if (!argument) return "";
  Operation* owner = argument.getOwner()->getParentOp();
  if (auto forall = dyn_cast<scf::ForallOp>(owner)) {
    if (OpOperand* tied = forall.getTiedOpOperand(argument)) return operand_name(tied->get(), attribute);
    return "";
  }
  auto function = dyn_cast<func::FuncOp>(owner);
  if (!function) return "";
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attribute);
  return name ? name.getValue() : "";
}

// The block format that an operand is stored in; kNone: it is not stored in blocks.
DType blocks_of(Value v) {
  const StringRef name = operand_name(v, ir::kBlocksAttr);
  DType format = DType::kNone;
  parse(absl::string_view(name.data(), name.size()), &format);
  return is_blocks(format) ? format : DType::kNone;
}

// The strides, in elements, of all dimensions of an operand except the last, whose stride is 1.
llvm::FailureOr<Values> strides_of(Emit& e, StringRef name, int64_t rank, const Arguments& a, Type type) {
  if (rank <= 1) return Values{};
  if (rank == 2 && name == "a") return Values{a.get("lda")};  // argmax: X
  if (rank == 2) return Values{a.get("m")};  // argmax: contiguous partial results [splits, rows]
  if (name == "a") return Values{a.get("stride_a"), a.get("lda")};
  if (name == "b") return Values{a.get("stride_b"), a.get("ldb")};
  if (name == "c") return Values{a.get("stride_c"), a.get("ldc")};
  if (name == "d") return Values{a.get("stride_d"), a.get("ldd")};
  if (name == "residual") return Values{a.get("stride_r"), a.get("ldr")};
  if (name == "workspace" && rank == 4) {
    // Contiguous partial results [splits, batch, M, N].
    Value n = e.idx(cast<RankedTensorType>(type).getDimSize(3));
    Value matrix = e.mul(a.get("m"), n);
    return Values{e.mul(a.get("batch"), matrix), matrix, n};
  }
  return failure();
}

class Instantiation {
 public:
  Instantiation(Emit& e, scf::ForallOp forall, const Arguments& arguments, const GroupRows* rows = nullptr)
      : e_(e), forall_(forall), a_(arguments), rows_(rows) {
    auto function = forall->getParentOfType<func::FuncOp>();
    for (BlockArgument argument : function.getArguments())
      if (!isa<TensorType>(argument.getType()))
        program_.mapping.map(argument, arguments.get(operand_name(argument)));
    // Operands of a kByte class have no alignment at all. The guarantees of other classes are for rows, not for
    // every element, so they do not become the alignment of a view.
    auto alignment = function->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(ir::kAlignmentAttr);
    if (alignment && alignment.getInt() == static_cast<int64_t>(Alignment::kByte)) operand_alignment_ = 1;
    generic_ = is_generic(function);
    auto backend = function->getParentOfType<ModuleOp>()->getAttrOfType<StringAttr>(ir::kBackendAttr);
    lists_rows_ = function->getParentOfType<ModuleOp>()->hasAttr(ir::kRowsAttr) && backend &&
                  backend.getValue() == "cpu";
    // Clone the scalar computations before the forall.
    for (Operation& op : function.getBody().front()) {
      if (&op == forall.getOperation()) break;
      clone_scalar(op);
    }
  }

  llvm::FailureOr<TileProgram> run(const GridPosition& position) {
    Value ids[] = {position.z, position.y, position.x};
    SmallVector<Value> ivs = forall_.getInductionVars();
    for (auto [i, iv] : llvm::enumerate(ivs)) program_.mapping.map(iv, ids[3 - ivs.size() + i]);
    for (Operation& op : *forall_.getBody())
      if (failed(visit(op))) return failure();
    if (rows_) program_.rows = rows_->count;
    return std::move(program_);
  }

  Value resolve(OpFoldResult v) {
    if (auto attribute = dyn_cast<Attribute>(v)) return e_.idx(cast<IntegerAttr>(attribute).getInt());
    return program_.mapping.lookup(cast<Value>(v));
  }

 private:
  // Sizes and offsets are never negative, so unsigned division is enough. It folds better and is faster.
  Value evaluate(AffineExpr expr, ValueRange dims, ValueRange symbols) {
    if (auto d = dyn_cast<AffineDimExpr>(expr)) return dims[d.getPosition()];
    if (auto s = dyn_cast<AffineSymbolExpr>(expr)) return symbols[s.getPosition()];
    if (auto c = dyn_cast<AffineConstantExpr>(expr)) return e_.idx(c.getValue());
    auto binary = cast<AffineBinaryOpExpr>(expr);
    Value x = evaluate(binary.getLHS(), dims, symbols), y = evaluate(binary.getRHS(), dims, symbols);
    switch (expr.getKind()) {
      case AffineExprKind::Add: return e_.add(x, y);
      case AffineExprKind::Mul: return e_.mul(x, y);
      case AffineExprKind::FloorDiv: return e_.div(x, y);
      case AffineExprKind::CeilDiv: return e_.ceil_div(x, y);
      default: return e_.rem(x, y);
    }
  }
  SmallVector<Value> evaluate(AffineMap map, ValueRange operands) {
    SmallVector<Value> mapped, results;
    for (Value v : operands) mapped.push_back(program_.mapping.lookup(v));
    ValueRange all(mapped);
    for (AffineExpr expr : map.getResults())
      results.push_back(evaluate(expr, all.take_front(map.getNumDims()), all.drop_front(map.getNumDims())));
    return results;
  }

  bool clone_scalar(Operation& op) {
    if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
      program_.mapping.map(apply.getResult(), evaluate(apply.getAffineMap(), apply.getMapOperands())[0]);
      return true;
    }
    if (auto minimum = dyn_cast<affine::AffineMinOp>(op)) {
      SmallVector<Value> values = evaluate(minimum.getAffineMap(), minimum.getOperands());
      Value least = values[0];
      for (Value v : ArrayRef<Value>(values).drop_front()) least = e_.min(least, v);
      program_.mapping.map(minimum.getResult(), least);
      return true;
    }
    if (!isa<arith::ArithDialect>(op.getDialect())) return false;
    if (op.getNumResults() != 1 || isa<ShapedType>(op.getResult(0).getType())) return false;
    e_.b.clone(op, program_.mapping);
    return true;
  }

  Value pointer(StringRef name, RankedTensorType type) {
    if (name != "workspace_indices") return a_.get(name);
    // argmax: in the workspace, the columns of the partial results follow their values (one f32 for each row and
    // partial result).
    Value pairs = type.isDynamicDim(0) ? dynamic_pairs() : e_.idx(type.getDimSize(0));
    Value values = e_.mul(pairs, a_.get("m"));
    Value at = arith::IndexCastOp::create(e_.b, e_.loc, e_.b.getI64Type(), values);
    Value base = a_.get("workspace");
    return LLVM::GEPOp::create(e_.b, e_.loc, base.getType(), e_.f32(), base, ArrayRef<LLVM::GEPArg>{at});
  }

  // The number of partial results per row: the splits of argmax, or the column tiles of a generic
  // matmul_argmax.
  Value dynamic_pairs() {
    ir::KernelConfigAttr config;
    forall_->getParentOfType<func::FuncOp>().walk([&](linalg::LinalgOp op) {
      if (op.getNumLoops() == 4) config = op->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
    });
    return config ? e_.ceil_div(a_.get("n"), e_.idx(config.tile_n())) : a_.get("splits");
  }

  llvm::FailureOr<View> view(Value tensor, ArrayRef<OpFoldResult> offsets) {
    StringRef name = operand_name(tensor);
    auto type = cast<RankedTensorType>(tensor.getType());
    if (name.empty())
      return forall_.emitError("has a slice of a value that is not an operand of the payload");
    auto strides = strides_of(e_, name, type.getRank(), a_, type);
    if (failed(strides))
      return forall_.emitError("has an operand '")
             << name << "' whose strides are unknown for rank " << type.getRank();
    View v;
    v.blocks = blocks_of(tensor);
    if (has_scales_apart(v.blocks) && name == "b")
      v.scales = memory_at(e_, a_.get("scale_b"), e_.b.getI8Type());
    Value across = strides->empty() ? Value() : strides->back(), along = e_.idx(1);
    if (generic_) open_view(e_, a_, name, type, &v, &across, &along);
    const Value column = offsets.empty() ? e_.idx(0) : e_.mul(resolve(offsets.back()), along);
    Value offset = column;
    if (!offsets.empty()) offsets = offsets.drop_back();
    for (auto [o, stride] : llvm::zip(offsets, *strides))
      offset = e_.add(offset, e_.mul(resolve(o), stride == strides->back() ? across : stride));
    Type element = type.getElementType();
    v.memory = memory_at(e_, pointer(name, type), v.blocks != DType::kNone ? e_.b.getI8Type() : element);
    v.offset = offset;
    v.row_stride = strides->empty() ? e_.idx(0) : strides->back();
    if (strides->size() == 2) v.batch_stride = strides->front();
    v.element = element;
    if (!name.starts_with("workspace")) v.alignment = operand_alignment_;
    if (rows_) place_group(name, column, &v);
    if (lists_rows_ && (name == "a" || name == "d")) list_rows(name, resolve(offsets.back()), column, &v);
    return v;
  }

  // CPU: `values` has the offsets of A's M rows, then those of D's. `row`: the view's first one.
  void list_rows(StringRef name, Value row, Value column, View* v) {
    Value at = arith::IndexCastOp::create(e_.b, e_.loc, e_.b.getI64Type(),
                                          name == "a" ? row : e_.add(row, a_.get("m")));
    Value list = a_.get("values");
    list = LLVM::GEPOp::create(e_.b, e_.loc, list.getType(), e_.b.getI64Type(), list,
                               ArrayRef<LLVM::GEPArg>{at});
    v->pointer = memory_at(e_, list, e_.index());
    v->offset = column;
  }

  // Moves a view to the rows and the group of a tile. `column`: the view's offset within a row.
  void place_group(StringRef name, Value column, View* v) {
    const auto along_rows = [&](Value list, Value offset, Value first) {
      v->pointer = list;
      v->offset = list ? column : e_.add(offset, e_.mul(first, v->row_stride));
    };
    if (name == "a") {
      along_rows(rows_->a, v->offset, rows_->first);
    } else if (name == "d") {
      along_rows(rows_->d, v->offset, rows_->first);
      if (rows_->sums) v->memory = rows_->sums;
    } else if (name == "residual") {  // a row for each slot
      along_rows(rows_->residual, column, rows_->first_slot);
    } else if (name == "bias") {
      v->offset = e_.add(e_.mul(column, a_.get("form")), e_.mul(rows_->group, a_.get("stride_r")));
    }
  }

  void set_view(Value tile, Value operand, const View& v) {
    program_.views[tile] = v;
    if (rows_ && operand_name(operand) == "bias") program_.mapping.map(tile, a_.get("form"));
  }

  LogicalResult visit(Operation& op) {
    if (isa<tensor::EmptyOp, linalg::FillOp>(op) || clone_scalar(op)) return success();
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      auto v = view(slice.getSource(), slice.getMixedOffsets());
      if (failed(v)) return failure();
      set_view(slice.getResult(), slice.getSource(), *v);
      sizes_[slice.getResult()] = slice.getMixedSizes();
      offsets_[slice.getResult()] = slice.getMixedOffsets();
      return success();
    }
    if (auto linalg_op = dyn_cast<linalg::LinalgOp>(op)) return visit_linalg(linalg_op);
    if (auto done = dyn_cast<scf::InParallelOp>(op)) return visit_outputs(done);
    return op.emitError("is not allowed in a distributed payload");
  }

  LogicalResult visit_linalg(linalg::LinalgOp op) {
    if (op->hasAttr(ir::kConfigAttr) && op.getNumLoops() == 4) {
      program_.contraction = op;
      place_contraction(op);
      return success();
    }
    auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
    if (!generic) return op.emitError("is not a linalg.generic");
    if (generic.getNumDpsInits() == 2) {  // argmax: reduces to a value and its column
      program_.argmax = op;
      Value input = generic.getDpsInputs()[0];
      if (!sizes_.contains(input)) return success();  // matmul_argmax: the input is a tile of logits
      const bool merge = generic.getNumDpsInputs() == 2;
      program_.depth = resolve(sizes_.lookup(input)[merge ? 0 : 1]);
      if (!merge) program_.first_column = resolve(offsets_.lookup(input)[1]);
    } else if (generic.getNumReductionLoops() > 0) {
      program_.reduction = generic;
      program_.depth = resolve(sizes_.lookup(generic.getDpsInputs()[0])[0]);
    } else {
      program_.epilogue = generic;
      return view_whole_inputs(generic);
    }
    return success();
  }

  // Sets the position of the tile from the offsets of the operands' slices, and the whole product's sizes from
  // the sliced tensors. The loops are (b, m, n, k).
  void place_contraction(linalg::LinalgOp op) {
    Value* places[] = {&program_.batch, &program_.row0, &program_.column0, &program_.depth0};
    Value* sizes[] = {nullptr, nullptr, &program_.columns, &program_.depth};
    int64_t* extents[] = {nullptr, nullptr, &program_.n, &program_.k};
    for (OpOperand* input : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(input);
      auto offsets = offsets_.find(input->get());
      auto slice = input->get().getDefiningOp<tensor::ExtractSliceOp>();
      auto whole = cast<RankedTensorType>(slice ? slice.getSource().getType() : input->get().getType());
      // A slice of a whole operand is folded away. Then there are no offsets.
      const bool sliced = offsets != offsets_.end();
      for (auto [i, result] : llvm::enumerate(map.getResults())) {
        const unsigned loop = cast<AffineDimExpr>(result).getPosition();
        *places[loop] = sliced ? resolve(offsets->second[i]) : e_.idx(0);
        if (!extents[loop]) continue;
        *extents[loop] = whole.getDimSize(i);
        *sizes[loop] = sliced ? resolve(sizes_.lookup(input->get())[i]) : e_.idx(whole.getDimSize(i));
      }
    }
    program_.split = e_.idx(0);
  }

  // If a tile covers a whole operand (such as the bias), its slice is folded away and the input is the operand
  // itself. Makes the view of such inputs.
  LogicalResult view_whole_inputs(linalg::GenericOp op) {
    for (Value input : op.getDpsInputs()) {
      if (program_.views.contains(input) || operand_name(input).empty()) continue;
      Attribute zero = e_.b.getIndexAttr(0);
      SmallVector<OpFoldResult> offsets(cast<RankedTensorType>(input.getType()).getRank(), zero);
      auto v = view(input, offsets);
      if (failed(v)) return failure();
      set_view(input, input, *v);
    }
    return success();
  }

  LogicalResult visit_outputs(scf::InParallelOp done) {
    for (Operation& yielding : done.getYieldingOps()) {
      auto insert = cast<tensor::ParallelInsertSliceOp>(yielding);
      auto v = view(insert.getDest(), insert.getMixedOffsets());
      if (failed(v)) return failure();
      program_.views[insert.getSource()] = *v;
      if (&yielding != &*done.getYieldingOps().begin()) continue;
      program_.output = *v;
      auto sizes = insert.getMixedSizes();
      if (program_.argmax) {
        program_.rows = resolve(sizes.back());
        continue;
      }
      if (sizes.size() == 4) program_.split = resolve(insert.getMixedOffsets()[0]);
      program_.columns = resolve(sizes.back());
      program_.rows = sizes.size() > 1 ? resolve(sizes[sizes.size() - 2]) : e_.idx(1);
    }
    return success();
  }

  Emit& e_;
  scf::ForallOp forall_;
  const Arguments& a_;
  const GroupRows* rows_;
  int64_t operand_alignment_ = 0;
  bool generic_ = false, lists_rows_ = false;
  TileProgram program_;
  llvm::DenseMap<Value, SmallVector<OpFoldResult>> sizes_, offsets_;
};

}  // namespace

llvm::FailureOr<TileProgram> instantiate(Emit& e, scf::ForallOp forall, const Arguments& arguments,
                                         const GridPosition& position) {
  return Instantiation(e, forall, arguments).run(position);
}

llvm::FailureOr<TileProgram> instantiate(Emit& e, scf::ForallOp forall, const Arguments& arguments,
                                         const GridPosition& position, const GroupRows& rows) {
  return Instantiation(e, forall, arguments, &rows).run(position);
}

Value row_at(Emit& e, const View& v, Value i) {
  return v.lists_rows() ? e.load(v.pointer, i) : e.mul(i, v.row_stride);
}

GridPosition grid_of(Emit& e, scf::ForallOp forall, const Arguments& arguments) {
  Instantiation scalars(e, forall, arguments);
  auto bounds = forall.getMixedUpperBound();
  Value one = e.idx(1);
  Value sizes[3] = {one, one, one};  // z, y, x
  for (size_t i = 0; i < bounds.size(); ++i) sizes[3 - bounds.size() + i] = scalars.resolve(bounds[i]);
  return {sizes[2], sizes[1], sizes[0]};
}

bool k_contiguous(linalg::LinalgOp contraction, unsigned operand) {
  AffineMap map = contraction.getMatchingIndexingMap(contraction.getDpsInputOperand(operand));
  return cast<AffineDimExpr>(map.getResults().back()).getPosition() == 3;
}

Value inline_elementwise(Emit& e, linalg::GenericOp op, ArrayRef<Value> inputs, int64_t lanes,
                         const IRMapping& scalars) {
  IRMapping mapping;
  Block& body = *op.getBody();
  for (auto [argument, value] : llvm::zip(body.getArguments(), inputs))
    if (value) mapping.map(argument, value);
  auto use = [&](Value v) {
    if (mapping.contains(v)) return;
    Value scalar = scalars.lookupOrDefault(v);
    mapping.map(v, lanes ? e.broadcast(scalar, lanes) : scalar);
  };
  for (Operation& inner : body.without_terminator()) {
    if (auto constant = dyn_cast<arith::ConstantOp>(inner)) {
      Value v = e.b.clone(inner)->getResult(0);
      mapping.map(constant.getResult(), lanes ? e.broadcast(v, lanes) : v);
      continue;
    }
    for (Value operand : inner.getOperands()) use(operand);
    Operation* clone = e.b.clone(inner, mapping);
    if (lanes)
      for (Value result : clone->getResults()) result.setType(e.vec(lanes, result.getType()));
  }
  Value yielded = body.getTerminator()->getOperand(0);
  use(yielded);
  return mapping.lookup(yielded);
}

}  // namespace lathe::emit
