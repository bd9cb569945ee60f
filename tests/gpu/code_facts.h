// The metadata that compiled GPU code contains about its kernels.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

struct KernelFacts {
  int64_t parameter_bytes = -1;
  std::vector<std::pair<int64_t, int64_t>> parameters;  // {offset, size} in order
  std::array<int64_t, 3> workgroup = {0, 0, 0};         // the required size
  int64_t shared_bytes = -1;
  // AMD: private segment and spilled registers. NVIDIA: stack frame and spilled bytes, from the assembler.
  int64_t scratch_bytes = -1, spills = -1;
  int64_t registers = -1;  // per thread; on AMD the vector registers, including accumulation registers
  int64_t scalar_registers = -1, accumulation_registers = 0, wave = 0;  // AMD only
  // AMD: FLOAT_DENORM_MODE of f32 (low 2 bits) and of f16 and f64 (high 2 bits). 15: subnormal inputs and results are
  // kept.
  int64_t denormals = -1;
};
using KernelTable = std::map<std::string, KernelFacts>;

// The target of an AMD code object, from its ELF header and its note.
struct HsacoTarget {
  int machine = 0, abi_version = 0;  // e_machine 224 is EM_AMDGPU; ABI version 3 is code object version 5
  uint32_t flags = 0;                // e_flags: the processor and its xnack and sramecc modes
  std::string name;                  // "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
};
HsacoTarget read_hsaco_target(const std::string& elf);

// The kernels of an AMD code object, from the NT_AMDGPU_METADATA note. Empty if there is none.
KernelTable read_hsaco(const std::string& elf);
// The kernels of a cubin, from the .nv.info sections and the resources in the artifact's metadata.
KernelTable read_cubin(const std::string& elf, const nlohmann::json& metadata);

}  // namespace lathe
