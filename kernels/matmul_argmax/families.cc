// The families of matmul_argmax: one row per backend and enumerator of plans.
#include "kernels/matmul_argmax/candidates.h"

namespace lathe {
namespace {

constexpr uint32_t kNone = 0;  // the plans are those of the families of matmul

constexpr KernelFamily kFamilies[] = {
    {Backend::kCpu, enumerate_matmul_argmax, kNone},
    {Backend::kCuda, enumerate_matmul_argmax, kNone},
    {Backend::kRocm, enumerate_matmul_argmax, kNone},
    {Backend::kSpirv, enumerate_matmul_argmax, kNone},
};
static_assert(only_serving(kFamilies, Op::kMatmulArgmax));

}  // namespace

absl::Span<const KernelFamily> matmul_argmax_families() { return kFamilies; }

}  // namespace lathe
