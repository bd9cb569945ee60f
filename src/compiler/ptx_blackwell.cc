#include "compiler/ptx_blackwell.h"

#include "absl/strings/str_cat.h"
#include "compiler/ptx_hopper.h"

namespace lathe::emit {
using namespace mlir;

namespace {

// The upper fields of a descriptor, in units of 16 bytes: the stride between groups of 8 rows in bits 32 to 45, the
// constant 1 in bits 46 to 48, the swizzle in bits 61 to 63 (PTX ISA, tcgen05 shared memory descriptor).
Value descriptor(Emit& e, Value shared, int64_t stride, int64_t swizzle) {
  Type i64 = e.b.getI64Type();
  Value address = e.div(arith::AndIOp::create(e.b, e.loc, shared, e.i32(0x3FFFF)), e.i32(16));
  const uint64_t rest = uint64_t(swizzle) << 61 | uint64_t{1} << 46 | uint64_t(stride / 16) << 32;
  return arith::OrIOp::create(e.b, e.loc, arith::ExtUIOp::create(e.b, e.loc, i64, address),
                              e.constant(i64, int64_t(rest)));
}

}  // namespace

void allocate_tensor_memory(Emit& e, Value to, int64_t columns) {
  inline_ptx(e,
             absl::StrCat("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$0], ", columns,
                          "; tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"),
             "r,~{memory}", to);
}
void free_tensor_memory(Emit& e, Value address, int64_t columns) {
  inline_ptx(e, absl::StrCat("tcgen05.dealloc.cta_group::1.sync.aligned.b32 $0, ", columns, ";"),
             "r,~{memory}", address);
}
void fence_before_barrier(Emit& e) { inline_ptx(e, "tcgen05.fence::before_thread_sync;", "~{memory}", {}); }
void fence_after_barrier(Emit& e) { inline_ptx(e, "tcgen05.fence::after_thread_sync;", "~{memory}", {}); }

Values load_tensor_memory(Emit& e, Value address, int64_t count) {
  std::string registers, results;
  for (int64_t i = 0; i < count; ++i) {
    absl::StrAppend(&registers, i ? ", $" : "$", i);
    absl::StrAppend(&results, "=f,");
  }
  Type all = LLVM::LLVMStructType::getLiteral(e.b.getContext(), SmallVector<Type>(size_t(count), e.f32()));
  // The wait is in the same assembly: no use of the registers may come between.
  Value loaded = inline_ptx(e,
                            absl::StrCat("tcgen05.ld.sync.aligned.32x32b.x", count, ".b32 {", registers,
                                         "}, [$", count, "]; tcgen05.wait::ld.sync.aligned;"),
                            results + "r,~{memory}", address, all);
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, loaded, ArrayRef<int64_t>{i}));
  return values;
}

Value product_descriptor(Emit& e, Value shared) {
  constexpr int64_t kRow = 128, kSwizzle128 = 2;
  return descriptor(e, shared, 8 * kRow, kSwizzle128);
}

void copy_scales(Emit& e, Value to, Value shared) {
  constexpr int64_t kRow = 16, kNoSwizzle = 0;
  inline_ptx(e, "tcgen05.cp.cta_group::1.32x128b.warpx4 [$0], $1;", "r,l,~{memory}",
             {to, descriptor(e, shared, 8 * kRow, kNoSwizzle)});
}

void multiply_scaled(Emit& e, const ScaledKind& kind, int64_t n, Value sums, Value a, Value b, Value scales_a,
                     Value scales_b, int64_t first, Value accumulate) {
  constexpr int64_t kRows = 128;
  // PTX ISA, instruction descriptor of .kind::mxf8f6f4, .kind::mxf4 and .kind::mxf4nvf4.
  const int64_t bits = first << 4 | kind.a << 7 | kind.b << 10 | (n / 8) << 17 |
                       int64_t{kind.powers_of_two} << 23 | (kRows / 128) << 27 | first << 29;
  inline_ptx(
      e,
      absl::StrCat("{ .reg .pred more; setp.ne.b32 more, $6, 0; tcgen05.mma.cta_group::1.kind::", kind.name,
                   ".block_scale.scale_vec::", kind.scales, "X [$0], $1, $2, $3, [$4], [$5], more; }"),
      "r,l,l,r,r,r,r,~{memory}", {sums, a, b, e.i32(bits), scales_a, scales_b, accumulate});
}

void arrive_after_products(Emit& e, Value barrier) {
  inline_ptx(e, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0];", "r,~{memory}",
             barrier);
}

}  // namespace lathe::emit
