// What compiled GPU code says of its kernels in its own metadata.
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
  std::array<int64_t, 3> workgroup = {0, 0, 0};         // required size
  int64_t shared_bytes = -1;
  // AMD: private segment and spilled registers. NVIDIA: stack frame and spilled bytes, from the assembler.
  int64_t scratch_bytes = -1, spills = -1;
  int64_t registers = -1;  // a thread's; AMD: its vector registers, accumulation registers among them
  int64_t scalar_registers = -1, accumulation_registers = 0, wave = 0;  // AMD
  // AMD: FLOAT_DENORM_MODE of f32 (low 2 bits) and of f16 and f64 (high 2 bits); 15: subnormals are neither
  // read nor written as 0.
  int64_t denormals = -1;
};
using KernelTable = std::map<std::string, KernelFacts>;

// What the header of an AMD code object and its note say it is for.
struct HsacoTarget {
  int machine = 0, abi_version = 0;  // of ELF: 224 is EM_AMDGPU; 3 is code object version 5
  uint32_t flags = 0;                // e_flags: the processor, and whether with xnack and sramecc
  std::string name;                  // "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"
};
HsacoTarget read_hsaco_target(const std::string& elf);

// Of an AMD code object: the NT_AMDGPU_METADATA note. Empty if there is none.
KernelTable read_hsaco(const std::string& elf);
// Of a cubin: the .nv.info sections, and what the artifact's metadata says of resources.
KernelTable read_cubin(const std::string& elf, const nlohmann::json& metadata);

}  // namespace lathe
