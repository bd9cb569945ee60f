#include "kernels/matmul/mma/emit_ukernel.h"

#include "compiler/ukernel.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// The arguments for one operand (ukernel/multi_mma.h): pointer, pitch, how much of its width exists, whether
// it is K-contiguous.
void append_operand(Emit& e, TileProgram& p, unsigned operand, Value limit, Values& arguments) {
  const View& view = p.views.find(p.contraction.getDpsInputs()[operand])->second;
  arguments.push_back(pointer_to(e, view.memory, view.offset));
  arguments.push_back(view.row_stride);
  arguments.push_back(e.to_i32(limit));
  arguments.push_back(e.i32(k_contiguous(p.contraction, operand)));
}

// Private memory of the thread, which becomes registers once the ukernel is inlined.
Value private_array(Emit& e, const GpuKernel& kernel, Type type, int64_t elements) {
  constexpr unsigned kAmdPrivate = 5;
  auto pointer = LLVM::LLVMPointerType::get(e.b.getContext(), kernel.rocm() ? kAmdPrivate : 0);
  return LLVM::AllocaOp::create(e.b, e.loc, pointer, type, e.i32(elements));
}

}  // namespace

Values sums_of_ukernel(Emit& e, const GpuKernel& kernel, const MmaShape& shape, TileProgram& p,
                       ir::UkernelAttr ukernel, Value shared) {
  const int64_t count = shape.fragment_rows() * shape.fragment_columns() * shape.instruction.sums();
  const View& a = p.views.find(p.contraction.getDpsInputs()[0])->second;
  Type sum = a.element.isInteger() ? Type(e.b.getI32Type()) : e.f32();
  Value array = private_array(e, kernel, sum, count);
  Values arguments;
  append_operand(e, p, 0, p.rows, arguments);
  append_operand(e, p, 1, p.columns, arguments);
  arguments.append({e.to_i32(p.depth), e.to_i32(kernel.thread()), shared, array});
  call_ukernel(e, ukernel, LLVM::LLVMVoidType::get(e.b.getContext()), arguments);
  Values sums;
  for (int32_t i = 0; i < count; ++i) {
    Value at = LLVM::GEPOp::create(e.b, e.loc, array.getType(), sum, array, ArrayRef<LLVM::GEPArg>{i});
    sums.push_back(LLVM::LoadOp::create(e.b, e.loc, sum, at));
  }
  return sums;
}

}  // namespace lathe::emit
