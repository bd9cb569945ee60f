// What elementwise gives the compiler.
#include "compiler/registry.h"
#include "kernels/elementwise/emit_cpu.h"
#include "kernels/elementwise/emit_gpu.h"
#include "kernels/elementwise/payload.h"

namespace lathe {

const OpEmitters& elementwise_emitters() {
  static const OpEmitters emitters = {
      nullptr,
      elementwise_payload,
      elementwise_recipe,
      {{"elementwise.cpu", emit::emit_elementwise_cpu}, {"elementwise.gpu", emit::emit_elementwise_gpu}}};
  return emitters;
}

}  // namespace lathe
