#include "compiler/external.h"

#include "absl/strings/str_cat.h"
#include "compiler/dialect.h"
#include "compiler/mlir.h"
#include "core/external.h"

namespace lathe {
namespace {
using namespace mlir;

// Collects an op and the producers of its initial values (fill, empty, constant), which move into the outlined
// function with it. All other operands become arguments of that function.
void add_with_producers(Operation* op, llvm::SetVector<Operation*>* all) {
  for (Value operand : op->getOperands()) {
    Operation* producer = operand.getDefiningOp();
    if (producer && isa<linalg::FillOp, tensor::EmptyOp, arith::ConstantOp>(producer))
      add_with_producers(producer, all);
  }
  all->insert(op);
}

// Moves an op and its epilogue into a new function with the attribute lathe.compiler, and puts a call in their
// place.
class Outliner {
 public:
  Outliner(ModuleOp module, linalg::LinalgOp op) : module_(module), op_(op) {}

  LogicalResult run() {
    auto epilogue = op_->hasOneUse() ? dyn_cast<linalg::GenericOp>(*op_->user_begin()) : linalg::GenericOp();
    if (!epilogue) return op_.emitError("expected one linalg.generic epilogue as the only user");
    llvm::SetVector<Operation*> ops;
    add_with_producers(op_, &ops);
    add_with_producers(epilogue, &ops);
    llvm::SetVector<Value> inputs;
    for (Operation* op : ops)
      op->walk([&](Operation* inner) {
        for (Value v : inner->getOperands())
          if (!is_inside(v, ops)) inputs.insert(v);
      });
    func::FuncOp function = make_function(inputs.getArrayRef(), epilogue.getResult(0).getType());
    OpBuilder b(epilogue);
    auto call = func::CallOp::create(b, epilogue.getLoc(), function, inputs.getArrayRef());
    epilogue.getResult(0).replaceAllUsesWith(call.getResult(0));
    fill(function, ops.getArrayRef(), inputs.getArrayRef(), epilogue);
    return success();
  }

 private:
  static bool is_inside(Value v, const llvm::SetVector<Operation*>& ops) {
    Operation* owner = v.getDefiningOp();
    if (!owner) owner = cast<BlockArgument>(v).getOwner()->getParentOp();
    for (; owner; owner = owner->getParentOp())
      if (ops.contains(owner)) return true;
    return false;
  }

  func::FuncOp make_function(ArrayRef<Value> inputs, Type result) {
    auto payload = op_->getParentOfType<func::FuncOp>();
    OpBuilder b(module_.getContext());
    auto function = func::FuncOp::create(op_.getLoc(), (payload.getName() + "_call").str(),
                                         b.getFunctionType(ValueRange(inputs).getTypes(), result));
    function.setPrivate();
    function->setAttr(ir::kCompilerAttr, op_->getAttr(ir::kExternalAttr));
    SymbolTable(module_).insert(function);
    for (auto [i, input] : llvm::enumerate(inputs)) {
      auto argument = dyn_cast<BlockArgument>(input);
      if (!argument || argument.getOwner() != &payload.front()) continue;
      if (Attribute operand = payload.getArgAttr(argument.getArgNumber(), ir::kOperandAttr))
        function.setArgAttr(i, ir::kOperandAttr, operand);
    }
    return function;
  }

  static void fill(func::FuncOp function, ArrayRef<Operation*> ops, ArrayRef<Value> inputs,
                   linalg::GenericOp last) {
    Block* body = function.addEntryBlock();
    IRMapping mapping;
    for (auto [input, argument] : llvm::zip(inputs, body->getArguments())) mapping.map(input, argument);
    OpBuilder b = OpBuilder::atBlockBegin(body);
    for (Operation* op : ops) b.clone(*op, mapping)->removeAttr(ir::kExternalAttr);
    func::ReturnOp::create(b, last.getLoc(), mapping.lookup(last.getResult(0)));
    for (Operation* op : llvm::reverse(ops))
      if (op->use_empty()) op->erase();
  }

  ModuleOp module_;
  linalg::LinalgOp op_;
};

struct OutlineExternalPass : PassWrapper<OutlineExternalPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OutlineExternalPass)
  StringRef getArgument() const override { return "lathe-outline-external"; }
  StringRef getDescription() const override {
    return "Outline each op that an external library computes into a function marked lathe.compiler";
  }
  void runOnOperation() override {
    llvm::SmallVector<linalg::LinalgOp> chosen;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op->hasAttr(ir::kExternalAttr)) chosen.push_back(op);
    });
    for (linalg::LinalgOp op : chosen)
      if (failed(Outliner(getOperation(), op).run())) return signalPassFailure();
  }
};

// Removes the bodies of the outlined functions, because the library implements them.
struct DeclareExternalPass : PassWrapper<DeclareExternalPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DeclareExternalPass)
  StringRef getArgument() const override { return "lathe-declare-external"; }
  StringRef getDescription() const override {
    return "Reduce each function with lathe.compiler to a declaration marked lathe.extern";
  }
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function->hasAttr(ir::kCompilerAttr)) continue;
      function.eraseBody();
      function->setAttr(ir::kExternAttr, UnitAttr::get(&getContext()));
    }
  }
};

absl::StatusOr<Step> step_of(func::CallOp call, const ProblemClass& problem) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  auto external = callee ? callee->getAttrOfType<ir::ExternalAttr>(ir::kCompilerAttr) : ir::ExternalAttr();
  if (!external || !callee->hasAttr(ir::kExternAttr))
    return absl::AbortedError(
        absl::StrCat("'", call.getCallee().str(), "' is called but is not an extern function"));
  Step step;
  step.kind = StepKind::kHostExtern;
  step.symbol = call.getCallee().str();
  for (Formula& side : step.grid) side = constant(1);
  step.external = {external.getLibrary().str(), external.getRoutine().str(), problem};
  return step;
}

// The workspace for a GPU library. Both vendors recommend 32 MiB for their newest devices.
int64_t workspace_of(const Target& target) { return target.backend == Backend::kCpu ? 0 : int64_t{32} << 20; }

}  // namespace

std::unique_ptr<Pass> make_outline_external_pass() { return std::make_unique<OutlineExternalPass>(); }
std::unique_ptr<Pass> make_declare_external_pass() { return std::make_unique<DeclareExternalPass>(); }

absl::StatusOr<Recipe> external_recipe(ModuleOp module, const ProblemClass& problem, const Target& target) {
  Recipe recipe;
  for (Operation& top : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(top);
    if (function && function->hasAttr(ir::kExternAttr)) continue;
    if (!function)
      return absl::AbortedError(
          absl::StrCat("'", top.getName().getStringRef().str(), "' remains beside an external call"));
    for (Operation& op : function.getOps()) {
      if (isa<func::ReturnOp>(op)) continue;
      auto call = dyn_cast<func::CallOp>(op);
      if (!call)
        return absl::AbortedError(
            absl::StrCat("'", op.getName().getStringRef().str(), "' remains beside an external call"));
      absl::StatusOr<Step> step = step_of(call, problem);
      if (!step.ok()) return step.status();
      recipe.steps.push_back(*std::move(step));
    }
  }
  if (recipe.steps.empty()) return absl::AbortedError("the pipeline's last stage leaves no external call");
  if (int64_t bytes = workspace_of(target); bytes > 0) recipe.workspace_bytes = constant(bytes);
  return recipe;
}

}  // namespace lathe
