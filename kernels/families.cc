#include "kernels/argmax/candidates.h"
#include "kernels/candidates.h"
#include "kernels/candidates_external.h"
#include "kernels/candidates_ukernel.h"
#include "kernels/elementwise/candidates.h"
#include "kernels/matmul/candidates.h"
#include "kernels/matmul_argmax/candidates.h"

namespace lathe {

const std::vector<KernelFamily>& kernel_families() {
  static const std::vector<KernelFamily> kFamilies = {
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_dot},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_outer},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_bytes},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_panel},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_packed},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_direct},
      {Op::kMatmul, Backend::kCpu, enumerate_matmul_amx},
      {Op::kMatmul, Backend::kCpu, enumerate_ukernels},
      {Op::kMatmul, Backend::kCpu, enumerate_externals},
      {Op::kMatmul, Backend::kCuda, enumerate_matmul_simt},
      {Op::kMatmul, Backend::kCuda, enumerate_matmul_mma},
      {Op::kMatmul, Backend::kCuda, enumerate_matmul_wgmma},
      {Op::kMatmul, Backend::kCuda, enumerate_matmul_skinny},
      {Op::kMatmul, Backend::kCuda, enumerate_ukernels},
      {Op::kMatmul, Backend::kCuda, enumerate_externals},
      {Op::kMatmul, Backend::kRocm, enumerate_matmul_simt},
      {Op::kMatmul, Backend::kRocm, enumerate_matmul_mma_rocm},
      {Op::kMatmul, Backend::kRocm, enumerate_matmul_skinny},
      {Op::kMatmul, Backend::kRocm, enumerate_ukernels},
      {Op::kMatmul, Backend::kRocm, enumerate_externals},
      {Op::kMatmul, Backend::kSpirv, enumerate_matmul_simt},
      {Op::kMatmul, Backend::kSpirv, enumerate_matmul_xegpu},
      {Op::kArgmax, Backend::kCpu, enumerate_argmax_cpu},
      {Op::kArgmax, Backend::kCpu, enumerate_ukernels},
      {Op::kArgmax, Backend::kCuda, enumerate_argmax_gpu},
      {Op::kArgmax, Backend::kCuda, enumerate_ukernels},
      {Op::kArgmax, Backend::kRocm, enumerate_argmax_gpu},
      {Op::kArgmax, Backend::kRocm, enumerate_ukernels},
      {Op::kArgmax, Backend::kSpirv, enumerate_argmax_gpu},
      {Op::kMatmulArgmax, Backend::kCpu, enumerate_matmul_argmax},
      {Op::kMatmulArgmax, Backend::kCuda, enumerate_matmul_argmax},
      {Op::kMatmulArgmax, Backend::kRocm, enumerate_matmul_argmax},
      {Op::kMatmulArgmax, Backend::kSpirv, enumerate_matmul_argmax},
      {Op::kElementwise, Backend::kCpu, enumerate_elementwise_cpu},
      {Op::kElementwise, Backend::kCuda, enumerate_elementwise_gpu},
      {Op::kElementwise, Backend::kRocm, enumerate_elementwise_gpu},
  };
  return kFamilies;
}

}  // namespace lathe
