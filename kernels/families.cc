// One row per op, backend and enumerator of plans.
#include "kernels/argmax/candidates.h"
#include "kernels/candidates.h"
#include "kernels/candidates_external.h"
#include "kernels/candidates_ukernel.h"
#include "kernels/elementwise/candidates.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul_argmax/candidates.h"

namespace lathe {
namespace {

using K = KernelKind;
constexpr uint32_t kUkernels = set_of(K::kUkernel), kExternals = set_of(K::kExternal),
                   kRows = set_of(K::kRows);
// matmul_argmax takes its plans from the families of matmul.
constexpr uint32_t kOfMatmul = 0;

constexpr KernelFamily kFamilies[] = {
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_dot, set_of(K::kDot, K::kDotT)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_outer, set_of(K::kOuter)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_bytes, set_of(K::kBytes)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_panel, set_of(K::kPanel, K::kPanelT)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_packed, set_of(K::kPacked)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_direct, set_of(K::kDirect, K::kDirectA, K::kDirectPacked)},
    {Op::kMatmul, Backend::kCpu, enumerate_matmul_amx, set_of(K::kAmx, K::kAmxT, K::kAmxPacked)},
    {Op::kMatmul, Backend::kCpu, enumerate_ukernels, kUkernels},
    {Op::kMatmul, Backend::kCpu, enumerate_externals, kExternals},
    {Op::kMatmul, Backend::kCuda, enumerate_matmul_simt, set_of(K::kSimt)},
    {Op::kMatmul, Backend::kCuda, enumerate_matmul_mma, set_of(K::kMma)},
    {Op::kMatmul, Backend::kCuda, enumerate_matmul_wgmma, set_of(K::kWgmma)},
    {Op::kMatmul, Backend::kCuda, enumerate_matmul_skinny, set_of(K::kSkinny)},
    {Op::kMatmul, Backend::kCuda, enumerate_ukernels, kUkernels},
    {Op::kMatmul, Backend::kCuda, enumerate_externals, kExternals},
    {Op::kMatmul, Backend::kRocm, enumerate_matmul_simt, set_of(K::kSimt)},
    {Op::kMatmul, Backend::kRocm, enumerate_matmul_mma_rocm, set_of(K::kMma, K::kMma32)},
    {Op::kMatmul, Backend::kRocm, enumerate_matmul_skinny, set_of(K::kSkinny)},
    {Op::kMatmul, Backend::kRocm, enumerate_ukernels, kUkernels},
    {Op::kMatmul, Backend::kRocm, enumerate_externals, kExternals},
    {Op::kMatmul, Backend::kSpirv, enumerate_matmul_simt, set_of(K::kSimt)},
    {Op::kMatmul, Backend::kSpirv, enumerate_matmul_xegpu, set_of(K::kXegpu)},
    {Op::kArgmax, Backend::kCpu, enumerate_argmax_cpu, kRows},
    {Op::kArgmax, Backend::kCpu, enumerate_ukernels, kUkernels},
    {Op::kArgmax, Backend::kCuda, enumerate_argmax_gpu, kRows},
    {Op::kArgmax, Backend::kCuda, enumerate_ukernels, kUkernels},
    {Op::kArgmax, Backend::kRocm, enumerate_argmax_gpu, kRows},
    {Op::kArgmax, Backend::kRocm, enumerate_ukernels, kUkernels},
    {Op::kArgmax, Backend::kSpirv, enumerate_argmax_gpu, kRows},
    {Op::kMatmulArgmax, Backend::kCpu, enumerate_matmul_argmax, kOfMatmul},
    {Op::kMatmulArgmax, Backend::kCuda, enumerate_matmul_argmax, kOfMatmul},
    {Op::kMatmulArgmax, Backend::kRocm, enumerate_matmul_argmax, kOfMatmul},
    {Op::kMatmulArgmax, Backend::kSpirv, enumerate_matmul_argmax, kOfMatmul},
    {Op::kElementwise, Backend::kCpu, enumerate_elementwise_cpu, kRows},
    {Op::kElementwise, Backend::kCuda, enumerate_elementwise_gpu, kRows},
    {Op::kElementwise, Backend::kRocm, enumerate_elementwise_gpu, kRows},
};

// Whether every kernel has a family on each of its backends, and no family names a kernel that does not serve
// its op and backend.
constexpr bool agrees_with_kernels() {
  for (const KernelRow& kernel : kKernels) {
    uint32_t backends = 0;
    for (const KernelFamily& family : kFamilies) {
      if ((family.kernels & set_of(kernel.kind)) == 0) continue;
      if (!kernel.serves(family.op, family.backend)) return false;
      backends |= set_of(family.backend);
    }
    if (backends != kernel.backends) return false;
  }
  return true;
}
static_assert(agrees_with_kernels(), "core/kernels.h and the families disagree");

}  // namespace

absl::Span<const KernelFamily> kernel_families() { return kFamilies; }

}  // namespace lathe
