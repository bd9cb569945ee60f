// The families of argmax: one row per backend and enumerator of plans.
#include "kernels/argmax/candidates.h"
#include "kernels/candidates_ukernel.h"

namespace lathe {
namespace {

using K = KernelKind;
constexpr uint32_t kUkernels = set_of(K::kUkernel);

constexpr KernelFamily kFamilies[] = {
    {Backend::kCpu, enumerate_argmax_cpu, set_of(K::kRows)},
    {Backend::kCpu, enumerate_ukernels, kUkernels},
    {Backend::kCuda, enumerate_argmax_gpu, set_of(K::kRows)},
    {Backend::kCuda, enumerate_ukernels, kUkernels},
    {Backend::kRocm, enumerate_argmax_gpu, set_of(K::kRows)},
    {Backend::kRocm, enumerate_ukernels, kUkernels},
    {Backend::kSpirv, enumerate_argmax_gpu, set_of(K::kRows)},
};
static_assert(only_serving(kFamilies, Op::kArgmax));
static_assert(every_serving(kFamilies, Op::kArgmax));

}  // namespace

absl::Span<const KernelFamily> argmax_families() { return kFamilies; }

}  // namespace lathe
