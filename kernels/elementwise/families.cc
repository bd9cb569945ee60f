// The families of elementwise: one row per backend and enumerator of plans.
#include "kernels/elementwise/candidates.h"

namespace lathe {
namespace {

using K = KernelKind;

constexpr KernelFamily kFamilies[] = {
    {Backend::kCpu, enumerate_elementwise_cpu, set_of(K::kRows)},
    {Backend::kCuda, enumerate_elementwise_gpu, set_of(K::kRows)},
    {Backend::kRocm, enumerate_elementwise_gpu, set_of(K::kRows)},
};
static_assert(only_serving(kFamilies, Op::kElementwise));

}  // namespace

absl::Span<const KernelFamily> elementwise_families() { return kFamilies; }

}  // namespace lathe
