// AMD: products by 16 x 16 matrix instructions (MFMA, WMMA), with D's columns along the instruction's rows.
// Lanes use their data as loaded: K may come in any order as long as both operands agree.
#include "kernels/matmul/mma/emit_operand.h"
#include "kernels/matmul/skinny/emit.h"

namespace lathe::emit {
namespace {
using namespace mlir;

class Mfma : public SkinnyProducts {
 public:
  explicit Mfma(SkinnyTile& tile) : t_(tile), e_(tile.e), instruction_(*tile.instruction) {}

  Values zeros() override { return {e_.zero(e_.vec(instruction_.sums(), t_.sum()))}; }

  void multiply(MutableArrayRef<Value> sums, ArrayRef<Value> weights, ArrayRef<Value> rows) override {
    const int64_t reads = instruction_.read_bytes() / SkinnyShape::kVector;
    for (int64_t v = 0; v < SkinnyShape::kUnitVectors; v += reads)
      sums[0] = multiply_lanes(e_, instruction_, joined(rows.slice(v, reads)),
                               joined(weights.slice(v, reads)), sums[0]);
  }

  void store(ArrayRef<Value> sums, Value at, int64_t pitch, int64_t rows) override {
    const SumLayout l = instruction_.layout();
    const auto place = [&](int64_t divisor, int64_t lanes) {
      return e_.rem(e_.div(t_.lane, e_.i32(divisor)), e_.i32(lanes));
    };
    Value row = place(l.row_divisor, l.row_lanes);
    Value column = e_.mul(place(l.column_divisor, l.column_lanes), l.column_step);
    column = e_.add(column, e_.mul(t_.warp_n, t_.shape.warp_columns));
    Value to = e_.add(at, e_.mul(e_.add(e_.mul(row, pitch), column), 4));
    Value all = kept_here(sums[0]);
    e_.when(e_.less(row, e_.i32(rows)), [&] {
      const int64_t together = std::min<int64_t>(l.run, 4);
      for (int64_t i = 0; i < instruction_.sums(); i += together) {
        Values some;
        for (int64_t j = 0; j < together; ++j)
          some.push_back(LLVM::ExtractElementOp::create(e_.b, e_.loc, all, e_.i32(i + j)));
        t_.store_shared(to, 4 * (i / l.run * l.run_columns + i % l.run), some);
      }
    });
  }

 private:
  // LLVM sinks code that only one branch needs into the branch, even matrix instructions (gfx1100, f16). They
  // read the operands of all lanes, also of lanes that do not take the branch.
  Value kept_here(Value sums) {
    return LLVM::InlineAsmOp::create(e_.b, e_.loc, sums.getType(), sums, "", "=v,0",
                                     /*has_side_effects=*/true, /*is_align_stack=*/false,
                                     LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                                     ArrayAttr())
        .getResult(0);
  }
  Value joined(ArrayRef<Value> vectors) {
    if (vectors.size() == 1) return vectors[0];
    return LLVM::ShuffleVectorOp::create(e_.b, e_.loc, vectors[0], vectors[1],
                                         ArrayRef<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  }

  SkinnyTile& t_;
  Emit& e_;
  const MatrixInstruction& instruction_;
};

}  // namespace

std::unique_ptr<SkinnyProducts> make_skinny_mfma(SkinnyTile& tile) { return std::make_unique<Mfma>(tile); }

}  // namespace lathe::emit
