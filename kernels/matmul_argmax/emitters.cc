// What matmul_argmax gives the compiler.
#include "compiler/registry.h"
#include "kernels/matmul_argmax/emit_cpu.h"
#include "kernels/matmul_argmax/payload.h"

namespace lathe {

const OpEmitters& matmul_argmax_emitters() {
  static const OpEmitters emitters = {matmul_argmax_payload,
                                      nullptr,
                                      matmul_argmax_recipe,
                                      {{"matmul_argmax.cpu", emit::emit_matmul_argmax_cpu}}};
  return emitters;
}

}  // namespace lathe
