#include "runtime/hip/agents.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"

namespace lathe {
namespace {

// The parts of hsa.h and hsa_ext_amd.h that are needed.
constexpr int kOk = 0;
constexpr int kWavefrontSize = 6, kDeviceType = 17, kComputeUnits = 0xA002, kPciFunction = 0xA006,
              kMostWaves = 0xA00A,
              kPciDomain = 0xA00F;  // hsa_agent_info_t, hsa_amd_agent_info_t
constexpr int kIsaNameLength = 0, kIsaName = 1;
constexpr uint32_t kGpu = 1;
struct AgentHandle {
  uint64_t handle;
};
struct IsaHandle {
  uint64_t handle;
};

struct Hsa {
  int (*init)() = nullptr;
  int (*shut_down)() = nullptr;
  int (*iterate_agents)(int (*visit)(AgentHandle, void*), void* data) = nullptr;
  int (*agent_info)(AgentHandle agent, int what, void* value) = nullptr;
  int (*iterate_isas)(AgentHandle agent, int (*visit)(IsaHandle, void*), void* data) = nullptr;
  int (*isa_info)(IsaHandle isa, int what, void* value) = nullptr;

  uint32_t number(AgentHandle agent, int what) const {
    uint32_t value = 0;
    return agent_info(agent, what, &value) == kOk ? value : 0;
  }
};

template <typename F>
absl::Status find(const gpu::Library& library, const char* name, F* function) {
  void* found = library.symbol(name);
  if (found == nullptr)
    return absl::UnavailableError(absl::StrCat("neither its library nor one that it depends on has ", name));
  std::memcpy(function, &found, sizeof found);
  return absl::OkStatus();
}

absl::StatusOr<Hsa> find_hsa(const gpu::Library& library) {
  Hsa hsa;
  LATHE_RETURN_IF_ERROR(find(library, "hsa_init", &hsa.init));
  LATHE_RETURN_IF_ERROR(find(library, "hsa_shut_down", &hsa.shut_down));
  LATHE_RETURN_IF_ERROR(find(library, "hsa_iterate_agents", &hsa.iterate_agents));
  LATHE_RETURN_IF_ERROR(find(library, "hsa_agent_get_info", &hsa.agent_info));
  LATHE_RETURN_IF_ERROR(find(library, "hsa_agent_iterate_isas", &hsa.iterate_isas));
  LATHE_RETURN_IF_ERROR(find(library, "hsa_isa_get_info_alt", &hsa.isa_info));
  return hsa;
}

struct Search {
  const Hsa& hsa;
  const PciAddress at;
  int gpus = 0;
  bool found = false;
  Agent agent;
};

// Keeps the first instruction set, which is the agent's own. The generic ones that it can also run follow.
int visit_isa(IsaHandle isa, void* data) {
  auto& search = *static_cast<Search*>(data);
  uint32_t length = 0;  // includes the NUL
  if (search.hsa.isa_info(isa, kIsaNameLength, &length) != kOk || length == 0 || length > 4096) return kOk;
  std::string name(length, '\0');
  if (!search.agent.isa.empty() || search.hsa.isa_info(isa, kIsaName, &name[0]) != kOk) return kOk;
  name.resize(std::strlen(name.c_str()));
  search.agent.isa = std::string(absl::StripPrefix(name, "amdgcn-amd-amdhsa--"));
  return kOk;
}

int visit_agent(AgentHandle agent, void* data) {
  auto& search = *static_cast<Search*>(data);
  const Hsa& hsa = search.hsa;
  if (hsa.number(agent, kDeviceType) != kGpu) return kOk;
  ++search.gpus;
  const uint32_t function = hsa.number(agent, kPciFunction);  // 8 bits of bus, 5 of device, 3 of function
  if (search.found || (function >> 8 & 0xFF) != search.at.bus || (function >> 3 & 0x1F) != search.at.device ||
      hsa.number(agent, kPciDomain) != search.at.domain)
    return kOk;
  search.found = true;
  search.agent.compute_units = hsa.number(agent, kComputeUnits);
  search.agent.waves_per_unit = hsa.number(agent, kMostWaves);
  search.agent.wave_size = hsa.number(agent, kWavefrontSize);
  return hsa.iterate_isas(agent, visit_isa, data);
}

}  // namespace

absl::StatusOr<Agent> find_agent(const gpu::Library& library, const PciAddress& at) {
  LATHE_ASSIGN_OR_RETURN(const Hsa hsa, find_hsa(library));
  // hsa_init and hsa_shut_down are reference-counted, so HIP's own use is not affected.
  if (const int result = hsa.init(); result != kOk)
    return absl::UnavailableError(absl::StrCat("hsa_init failed with 0x", absl::Hex(result)));
  Search search{hsa, at, 0, false, {}};
  const int result = hsa.iterate_agents(visit_agent, &search);
  hsa.shut_down();
  const std::string place =
      absl::StrCat(absl::Hex(at.domain, absl::kZeroPad4), ":", absl::Hex(at.bus, absl::kZeroPad2), ":",
                   absl::Hex(at.device, absl::kZeroPad2));
  if (result != kOk)
    return absl::UnavailableError(absl::StrCat("hsa_iterate_agents failed with 0x", absl::Hex(result)));
  if (!search.found)
    return absl::UnavailableError(absl::StrCat(
        "HSA has ", search.gpus, " GPU agent(s), but none at the PCI address of HIP's device, ", place));
  if (search.agent.isa.empty())
    return absl::UnavailableError(absl::StrCat("HSA reports no instruction set for the GPU at ", place));
  return search.agent;
}

}  // namespace lathe
