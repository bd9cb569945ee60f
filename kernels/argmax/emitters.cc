// What argmax gives the compiler.
#include "compiler/registry.h"
#include "kernels/argmax/emit_cpu.h"
#include "kernels/argmax/emit_gpu.h"
#include "kernels/argmax/payload.h"

namespace lathe {

const OpEmitters& argmax_emitters() {
  static const OpEmitters emitters = {
      argmax_payload,
      nullptr,
      argmax_recipe,
      {{"argmax.cpu", emit::emit_argmax_cpu}, {"argmax.gpu", emit::emit_argmax_gpu}}};
  return emitters;
}

}  // namespace lathe
