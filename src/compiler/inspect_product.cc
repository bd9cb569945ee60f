#include "absl/strings/str_cat.h"
#include "compiler/inspect_steps.h"

namespace lathe::payload {
namespace {
using namespace mlir;

// Exchanges m and n. The product of the transposed operands in reverse order is the transposed product.
void swap_roles(std::string* dims) {
  for (char& c : *dims) c = c == 'm' ? 'n' : c == 'n' ? 'm' : c;
}

// If there are two loops over rows (or columns), treats the one that is outer in the result as a batch loop,
// for which the other operand has no dimension.
void make_batch(linalg::LinalgOp op, SmallVectorImpl<unsigned>* loops, SmallVectorImpl<unsigned>* batch) {
  if (loops->size() != 2 || !batch->empty()) return;
  const AffineMap result = op.getIndexingMapsArray().back();
  const auto place = [&](unsigned loop) {
    return result.getResultPosition(getAffineDimExpr(loop, op.getContext()));
  };
  const bool first = place((*loops)[0]) < place((*loops)[1]);
  batch->push_back((*loops)[first ? 0 : 1]);
  loops->erase(loops->begin() + (first ? 0 : 1));
}

// Whether the loops can be merged into one: each operand has all of them, adjacent and in the same order, or
// none.
bool lie_together(linalg::LinalgOp op, ArrayRef<unsigned> loops) {
  SmallVector<std::pair<unsigned, unsigned>> first;  // (position, loop) in the first operand that has them
  for (AffineMap map : op.getIndexingMapsArray()) {
    SmallVector<std::pair<unsigned, unsigned>> places;
    for (unsigned loop : loops)
      if (std::optional<unsigned> place = map.getResultPosition(getAffineDimExpr(loop, op.getContext())))
        places.push_back({*place, loop});
    if (places.empty()) continue;
    if (places.size() != loops.size()) return false;
    llvm::sort(places);
    if (first.empty()) first = places;
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i].first != places[0].first + i || places[i].second != first[i].second) return false;
  }
  return true;
}

// Finds the letter of each loop. Fails if two loops of the same kind cannot be merged.
Reason name_loops(linalg::LinalgOp op, SmallVector<char>* letters) {
  FailureOr<linalg::ContractionDimensions> dims = linalg::inferContractionDims(op);
  if (failed(dims)) return "its indexing maps are not those of a contraction";
  make_batch(op, &dims->m, &dims->batch);
  if (!lie_together(op, dims->n)) make_batch(op, &dims->n, &dims->batch);
  letters->assign(op.getNumLoops(), '?');
  const std::pair<char, ArrayRef<unsigned>> kinds[] = {
      {'b', dims->batch}, {'m', dims->m}, {'n', dims->n}, {'k', dims->k}};
  for (const auto& [letter, loops] : kinds) {
    if (loops.size() > 1 && !lie_together(op, loops))
      return absl::StrCat(loops.size(), " loops are '", std::string(1, letter),
                          "' but not adjacent in every operand, so they cannot be merged");
    for (unsigned loop : loops) (*letters)[loop] = letter;
  }
  if (llvm::is_contained(*letters, '?'))
    return "a loop is not over batch, rows, columns or the reduced dimension";
  if (dims->k.empty()) return "nothing is reduced: an outer product";
  return "";
}

// Removes casts of these kinds from `value`.
template <typename... Casts>
Value uncast(Value value) {
  while (isa_and_nonnull<Casts...>(value.getDefiningOp())) value = value.getDefiningOp()->getOperand(0);
  return value;
}

// Removes casts that change no value: widenings, and casts from integers to floats of at least 16 bits, which
// can represent all i8 values.
Value widened(Value value) {
  for (Operation* cast = value.getDefiningOp();
       isa_and_nonnull<arith::ExtFOp, arith::ExtSIOp, arith::SIToFPOp>(cast); cast = value.getDefiningOp()) {
    if (isa<arith::SIToFPOp>(cast) && value.getType().getIntOrFloatBitWidth() < 16) break;
    value = cast->getOperand(0);
  }
  return value;
}

// The body may round the product and the sum to a narrower float; Lathe may compute more exactly.
bool is_sum_of_products(Block* body) {
  Operation* sum = uncast<arith::TruncFOp>(body->getTerminator()->getOperand(0)).getDefiningOp();
  if (!isa_and_nonnull<arith::AddFOp, arith::AddIOp>(sum)) return false;
  const bool first = uncast<arith::ExtFOp>(sum->getOperand(0)) == body->getArgument(2);
  const bool second = uncast<arith::ExtFOp>(sum->getOperand(1)) == body->getArgument(2);
  Operation* product = uncast<arith::ExtFOp>(sum->getOperand(first ? 1 : 0)).getDefiningOp();
  if (first == second || !isa_and_nonnull<arith::MulFOp, arith::MulIOp>(product)) return false;
  const Value x = widened(product->getOperand(0)), y = widened(product->getOperand(1));
  const Value a = body->getArgument(0), b = body->getArgument(1);
  return (x == a && y == b) || (x == b && y == a);
}

// MLIR accepts a body as a contraction even if it contains arbitrary unary ops, so the body is checked here.
Reason read_body(Block* body) {
  if (is_sum_of_products(body)) return "";
  for (Operation& op : body->without_terminator()) {
    // Lathe's i8 is signed.
    if (isa<arith::ExtUIOp, arith::UIToFPOp>(op)) return "its integers are unsigned";
    if (!isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp, arith::ExtFOp, arith::ExtSIOp,
             arith::SIToFPOp>(op))
      return absl::StrCat("'", op.getName().getStringRef().str(), "' is not allowed in a sum of products");
  }
  return "it is not a sum of products of two tensors, widened before the multiplication";
}

}  // namespace

Reason read_product(linalg::LinalgOp op, Step* step) {
  if (!linalg::isaContractionOpInterface(op)) return "it is not a sum of products of two tensors";
  if (Reason why = read_body(op.getBlock()); !why.empty()) return why;
  SmallVector<char> letters;
  if (Reason why = name_loops(op, &letters); !why.empty()) return why;
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  step->op = Op::kMatmul;
  step->a = {op.getDpsInputs()[0], letters_of(maps[0], letters)};
  step->b = {op.getDpsInputs()[1], letters_of(maps[1], letters)};
  step->d = {op->getResult(0), letters_of(maps[2], letters)};
  // A is the operand with the rows, whichever comes first.
  if (llvm::is_contained(step->a.dims, 'n') || llvm::is_contained(step->b.dims, 'm'))
    std::swap(step->a, step->b);
  if (!step->d.dims.empty() && step->d.dims.back() == 'm') {
    for (Access* access : {&step->a, &step->b, &step->d}) swap_roles(&access->dims);
    std::swap(step->a, step->b);
  }
  if (!step->d.dims.empty() && step->d.dims.back() == 'b')
    return "the batch is the result's innermost dimension";
  const auto element = [](const Access& x) { return getElementTypeOrSelf(x.tensor.getType()); };
  if (element(step->a) != element(step->b)) return "its operands have different element types";
  for (const Access* access : {&step->a, &step->b, &step->d})
    if (dtype_of(element(*access)) == DType::kNone)
      return "it has an element type that Lathe does not support";
  const Value init = op.getDpsInits()[0];
  if (!is_filled(init, 0)) step->c = {init, step->d.dims};
  return "";
}

Reason read_diagonal(linalg::LinalgOp op, Step* step) {
  const char* no = "it is not a diagonal matrix times a matrix";
  if (op.getNumDpsInputs() != 2 || op.getNumLoops() != 2 || op.getNumReductionLoops() != 0) return no;
  Block* block = op.getBlock();
  auto times = block->getTerminator()->getOperand(0).getDefiningOp<arith::MulFOp>();
  if (!times || block->getOperations().size() != 2) return no;
  const Value x = block->getArgument(0), y = block->getArgument(1);
  if (!(times.getLhs() == x && times.getRhs() == y) && !(times.getLhs() == y && times.getRhs() == x))
    return no;
  const SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  const bool second = maps[1].getNumResults() == 1;
  const AffineMap diagonal = maps[second ? 1 : 0];
  if (!maps[2].isIdentity() || !maps[second ? 0 : 1].isIdentity() || diagonal.getNumResults() != 1 ||
      diagonal.getResult(0) != getAffineDimExpr(0, op.getContext()))
    return no;
  step->op = Op::kMatmul;
  step->a = {op.getDpsInputs()[second ? 1 : 0], "b"};
  step->b = {op.getDpsInputs()[second ? 0 : 1], "bn"};
  step->d = {op->getResult(0), "bn"};
  const auto element = [](const Access& access) { return getElementTypeOrSelf(access.tensor.getType()); };
  for (const Access* access : {&step->a, &step->b, &step->d})
    if (element(*access) != element(step->a) || !is_float(dtype_of(element(*access)))) return no;
  return "";
}

}  // namespace lathe::payload
