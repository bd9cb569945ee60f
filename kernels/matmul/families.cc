// The families of matmul: one row per backend and enumerator of plans.
#include "kernels/candidates_external.h"
#include "kernels/candidates_ukernel.h"
#include "kernels/matmul/candidates.h"

namespace lathe {
namespace {

using K = KernelKind;
constexpr uint32_t kUkernels = set_of(K::kUkernel), kExternals = set_of(K::kExternal);

constexpr KernelFamily kFamilies[] = {
    {Backend::kCpu, enumerate_matmul_dot, set_of(K::kDot, K::kDotT)},
    {Backend::kCpu, enumerate_matmul_outer, set_of(K::kOuter)},
    {Backend::kCpu, enumerate_matmul_bytes,
     set_of(K::kBytes, K::kBytesPacked, K::kAmxBytes, K::kAmxBytesPacked)},
    {Backend::kCpu, enumerate_matmul_blocked,
     set_of(K::kPanel, K::kPanelT, K::kPacked, K::kDirect, K::kDirectA, K::kDirectPacked)},
    {Backend::kCpu, enumerate_matmul_amx, set_of(K::kAmx, K::kAmxT, K::kAmxPacked)},
    {Backend::kCpu, enumerate_ukernels, kUkernels},
    {Backend::kCpu, enumerate_externals, kExternals},
    {Backend::kCuda, enumerate_matmul_simt, set_of(K::kSimt)},
    {Backend::kCuda, enumerate_matmul_mma, set_of(K::kMma)},
    {Backend::kCuda, enumerate_matmul_wgmma, set_of(K::kWgmma)},
    {Backend::kCuda, enumerate_matmul_tcgen05, set_of(K::kTcgen05)},
    {Backend::kCuda, enumerate_matmul_skinny, set_of(K::kSkinny)},
    {Backend::kCuda, enumerate_ukernels, kUkernels},
    {Backend::kCuda, enumerate_externals, kExternals},
    {Backend::kRocm, enumerate_matmul_simt, set_of(K::kSimt)},
    {Backend::kRocm, enumerate_matmul_mma_rocm, set_of(K::kMma, K::kMma32)},
    {Backend::kRocm, enumerate_matmul_skinny, set_of(K::kSkinny)},
    {Backend::kRocm, enumerate_ukernels, kUkernels},
    {Backend::kRocm, enumerate_externals, kExternals},
    {Backend::kSpirv, enumerate_matmul_simt, set_of(K::kSimt)},
    {Backend::kSpirv, enumerate_matmul_xegpu, set_of(K::kXegpu)},
};
static_assert(only_serving(kFamilies, Op::kMatmul));
static_assert(every_serving(kFamilies, Op::kMatmul));

}  // namespace

absl::Span<const KernelFamily> matmul_families() { return kFamilies; }

}  // namespace lathe
