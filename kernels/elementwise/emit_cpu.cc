// "rows" on the CPU: row after row of the tile, register_n elements at a time in vectors, the end of a row with
// masks. Inputs that lie along m are gathered element by element. If there is such an input, the tile is walked in
// columns of one vector, with all rows inside, so that all rows use the cache lines that the first row fetched.
#include "kernels/elementwise/emit_cpu.h"

#include "compiler/cpu_task.h"
#include "compiler/dialect.h"
#include "kernels/elementwise/emit_program.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class TileEmitter {
 public:
  TileEmitter(Emit& e, const TileProgram& p, ArrayRef<ElementwiseAccess> accesses, int64_t lanes)
      : e_(e), p_(p), accesses_(accesses), lanes_(lanes) {}

  void by_rows(int64_t unroll) {
    e_.loop(e_.idx(0), p_.rows, 1, [&](Value row) {
      begin(row);
      Value unrolled = e_.mul(e_.div(p_.columns, e_.idx(lanes_ * unroll)), lanes_ * unroll),
            whole = whole_columns();
      e_.loop(e_.idx(0), unrolled, lanes_ * unroll, [&](Value j) { vectors(j, unroll); });
      if (unroll > 1) e_.loop(unrolled, whole, lanes_, [&](Value j) { vectors(j, 1); });
      e_.when(e_.less(whole, p_.columns), [&] { rest(whole); });
    });
  }
  void by_columns() {
    const auto rows = [&](const std::function<void()>& body) {
      e_.loop(e_.idx(0), p_.rows, 1, [&](Value row) {
        begin(row);
        body();
      });
    };
    Value whole = whole_columns();
    e_.loop(e_.idx(0), whole, lanes_, [&](Value j) { rows([&] { vectors(j, 1); }); });
    e_.when(e_.less(whole, p_.columns), [&] { rows([&] { rest(whole); }); });
  }

 private:
  // Inputs with one value per row are read once.
  void begin(Value row) {
    row_ = row;
    of_row_.clear();
    for (const ElementwiseAccess& a : accesses_)
      of_row_.push_back(a.kind == ElementwiseAccess::kPerRow
                            ? e_.broadcast(e_.load(a.view.memory, a.at(e_, row, e_.idx(0))), lanes_)
                            : Value());
  }
  Value whole_columns() { return e_.mul(e_.div(p_.columns, e_.idx(lanes_)), lanes_); }
  // The rest of the row from `column` on, less than a vector.
  void rest(Value column) {
    Value left = e_.sub(p_.columns, column);
    e_.store_masked(result(column, left), p_.output.memory, output_at(column), left);
  }
  // All results are computed before the first is stored, because the output may be one of the inputs.
  void vectors(Value column, int64_t count) {
    Values results;
    for (int64_t u = 0; u < count; ++u) results.push_back(result(e_.add(column, u * lanes_), nullptr));
    for (int64_t u = 0; u < count; ++u)
      e_.store_vector(results[u], p_.output.memory, output_at(e_.add(column, u * lanes_)));
  }
  Value result(Value column, Value left) {
    Values inputs;
    for (auto [access, of_row] : llvm::zip(accesses_, of_row_))
      inputs.push_back(of_row ? of_row : load(access, column, left));
    return elementwise_result(e_, p_, inputs, row_, column, lanes_);
  }
  Value load(const ElementwiseAccess& a, Value column, Value left) {
    if (a.kind == ElementwiseAccess::kAlongN) {
      Value at = a.at(e_, row_, column);
      return left ? e_.load_masked(a.view.memory, at, lanes_, left)
                  : e_.load_vector(a.view.memory, at, lanes_);
    }
    Values lanes;
    for (int64_t l = 0; l < lanes_; ++l) {
      // Beyond the last column, that column is read again.
      Value j = e_.add(column, l);
      if (left) j = e_.min(j, e_.sub(p_.columns, e_.idx(1)));
      lanes.push_back(e_.load(a.view.memory, a.at(e_, row_, j)));
    }
    return e_.from_elements(lanes);
  }
  Value output_at(Value column) {
    return e_.add(e_.add(p_.output.offset, e_.mul(row_, p_.output.row_stride)), column);
  }

  Emit& e_;
  const TileProgram& p_;
  ArrayRef<ElementwiseAccess> accesses_;
  int64_t lanes_;
  Value row_;
  Values of_row_;  // the row's value; null for inputs that vary along the row
};

llvm::FailureOr<int64_t> emit_step(Emit& e, const Arguments&, TileProgram& p) {
  if (!p.epilogue) return emitError(e.loc, "an elementwise step needs a linalg.generic of parallel loops");
  auto config = p.epilogue->getAttrOfType<ir::KernelConfigAttr>(ir::kConfigAttr);
  if (!config) return p.epilogue.emitError("has no ") << ir::kConfigAttr;
  const int64_t lanes = config.lanes(),
                unroll = config.as<CpuRowsConfig>().register_n / std::max<int64_t>(lanes, 1);
  if (lanes < 1 || unroll < 1)
    return p.epilogue.emitError("kernel_config: register_n is less than one vector");
  auto accesses = elementwise_accesses(p);
  if (failed(accesses)) return failure();
  TileEmitter tile(e, p, *accesses, lanes);
  const bool gathers = llvm::any_of(
      *accesses, [](const ElementwiseAccess& a) { return a.kind == ElementwiseAccess::kAlongM; });
  gathers ? tile.by_columns() : tile.by_rows(unroll);
  return int64_t{0};
}

}  // namespace

LogicalResult emit_elementwise_cpu(ModuleOp module) { return emit_cpu_tasks(module, emit_step); }

}  // namespace lathe::emit
