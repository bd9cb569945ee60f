// One row per op, one row per emitter that a pipeline can name.
#include "compiler/registry.h"
#include "kernels/argmax/emit_cpu.h"
#include "kernels/argmax/emit_gpu.h"
#include "kernels/argmax/payload.h"
#include "kernels/elementwise/emit_cpu.h"
#include "kernels/elementwise/emit_gpu.h"
#include "kernels/elementwise/payload.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/payload.h"
#include "kernels/matmul_argmax/emit_cpu.h"
#include "kernels/matmul_argmax/payload.h"

namespace lathe {

const std::vector<PayloadRow>& payload_rows() {
  static const std::vector<PayloadRow> rows = {
      {Op::kMatmul, matmul_payload, nullptr, matmul_recipe},
      {Op::kArgmax, argmax_payload, nullptr, argmax_recipe},
      {Op::kMatmulArgmax, matmul_argmax_payload, nullptr, matmul_argmax_recipe},
      {Op::kElementwise, nullptr, elementwise_payload, elementwise_recipe},
  };
  return rows;
}

const std::vector<EmitterRow>& emitter_rows() {
  static const std::vector<EmitterRow> rows = {
      {"matmul.cpu", emit::emit_matmul_cpu},
      {"matmul.gpu", emit::emit_matmul_gpu},
      {"argmax.cpu", emit::emit_argmax_cpu},
      {"argmax.gpu", emit::emit_argmax_gpu},
      {"matmul_argmax.cpu", emit::emit_matmul_argmax_cpu},
      {"elementwise.cpu", emit::emit_elementwise_cpu},
      {"elementwise.gpu", emit::emit_elementwise_gpu},
  };
  return rows;
}

}  // namespace lathe
