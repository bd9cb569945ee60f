#include "compiler/ptx_mma.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace lathe::emit {
using namespace mlir;

namespace {

NVVM::MMATypes ptx_type(Type element) {
  if (element.isF16()) return NVVM::MMATypes::f16;
  if (element.isBF16()) return NVVM::MMATypes::bf16;
  return element.isF32() ? NVVM::MMATypes::tf32 : NVVM::MMATypes::s8;
}

bool is_f8(Type element) { return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 8; }

Values fields(Emit& e, Value structure) {
  Values values;
  const size_t count = cast<LLVM::LLVMStructType>(structure.getType()).getBody().size();
  for (size_t i = 0; i < count; ++i)
    values.push_back(
        LLVM::ExtractValueOp::create(e.b, e.loc, structure, ArrayRef<int64_t>{static_cast<int64_t>(i)}));
  return values;
}

}  // namespace

void copy_async(Emit& e, Value shared, Value global, Value bytes) {
  NVVM::CpAsyncOp::create(e.b, e.loc, shared, global, /*size=*/16, NVVM::LoadCacheModifierKind::CG, bytes);
}
void copy_8_async(Emit& e, Value shared, Value global, Value bytes) {
  NVVM::CpAsyncOp::create(e.b, e.loc, shared, global, /*size=*/8, NVVM::LoadCacheModifierKind::CA, bytes);
}
void commit_copies(Emit& e) { NVVM::CpAsyncCommitGroupOp::create(e.b, e.loc); }
void wait_copies(Emit& e, int64_t pending) { NVVM::CpAsyncWaitGroupOp::create(e.b, e.loc, pending); }

Values load_matrices(Emit& e, Value shared, bool transposed) {
  Type i32 = e.b.getI32Type();
  Type result = LLVM::LLVMStructType::getLiteral(e.b.getContext(), {i32, i32, i32, i32});
  auto shape = NVVM::LdStMatrixShapeAttr::get(e.b.getContext(), 8, 8);
  return fields(e, NVVM::LdMatrixOp::create(e.b, e.loc, result, shared, /*num=*/4,
                                            transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row, shape,
                                            NVVM::LdStMatrixEltType::B16));
}

Values multiply_matrices(Emit& e, Type element, ArrayRef<Value> a, ArrayRef<Value> b, ArrayRef<Value> sums) {
  // The op takes f16 as vectors of two, and all other types as i32 registers.
  const auto registers = [&](ArrayRef<Value> from) {
    Values to(from.begin(), from.end());
    if (element.isF16())
      for (Value& v : to) v = LLVM::BitcastOp::create(e.b, e.loc, e.vec(2, element), v);
    return to;
  };
  Type sum = sums[0].getType();
  Type result = LLVM::LLVMStructType::getLiteral(e.b.getContext(), {sum, sum, sum, sum});
  if (is_f8(element)) {  // NVVM::MmaOp does not support 8-bit floats
    Values operands(a.begin(), a.end());
    operands.append(b.begin(), b.end());
    operands.append(sums.begin(), sums.end());
    StringRef name = isa<Float8E5M2Type>(element) ? "llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e5m2.f32"
                                                  : "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32";
    return fields(
        e, LLVM::CallIntrinsicOp::create(e.b, e.loc, result, e.b.getStringAttr(name), operands).getResult(0));
  }
  const int64_t depth = 32 * 8 / element.getIntOrFloatBitWidth();  // 32 bytes of each row for every type
  std::optional<NVVM::MMAIntOverflow> overflow;
  if (element.isInteger()) overflow = NVVM::MMAIntOverflow::wrapped;
  return fields(
      e, NVVM::MmaOp::create(e.b, e.loc, result, registers(a), registers(b), ValueRange(sums), {16, 8, depth},
                             std::nullopt, overflow, std::array{ptx_type(element), ptx_type(element)},
                             std::array{NVVM::MMALayout::row, NVVM::MMALayout::col}));
}

int64_t least_ptx_of_mma(Type element) { return is_f8(element) ? 84 : 0; }

Value round_to_tf32(Emit& e, Value bits) {
  return LLVM::InlineAsmOp::create(e.b, e.loc, e.b.getI32Type(), ValueRange(bits), "cvt.rna.tf32.f32 $0, $1;",
                                   "=r,r", /*has_side_effects=*/false, /*is_align_stack=*/false,
                                   LLVM::tailcallkind::TailCallKind::None, LLVM::AsmDialectAttr(),
                                   ArrayAttr())
      .getResult(0);
}

}  // namespace lathe::emit
