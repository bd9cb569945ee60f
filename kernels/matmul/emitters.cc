// What matmul gives the compiler.
#include "compiler/registry.h"
#include "kernels/matmul/cpu/emit.h"
#include "kernels/matmul/emit_gpu.h"
#include "kernels/matmul/payload.h"

namespace lathe {

const OpEmitters& matmul_emitters() {
  static const OpEmitters emitters = {
      matmul_payload,
      nullptr,
      matmul_recipe,
      {{"matmul.cpu", emit::emit_matmul_cpu}, {"matmul.gpu", emit::emit_matmul_gpu}}};
  return emitters;
}

}  // namespace lathe
