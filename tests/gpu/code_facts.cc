#include "code_facts.h"

#include <elf.h>

#include <cstring>

namespace lathe {
namespace {

template <typename T>
T at(const std::string& bytes, size_t offset) {
  T value{};
  if (offset + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

struct Section {
  std::string name, bytes;
  uint32_t type, info;
};

std::vector<Section> sections_of(const std::string& elf) {
  const auto header = at<Elf64_Ehdr>(elf, 0);
  std::vector<Section> result;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return result;
  auto section_header = [&](size_t i) {
    return at<Elf64_Shdr>(elf, header.e_shoff + i * header.e_shentsize);
  };
  const size_t names = section_header(header.e_shstrndx).sh_offset;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr s = section_header(i);
    if (names + s.sh_name >= elf.size()) continue;
    const bool stored = s.sh_type != SHT_NOBITS && s.sh_offset <= elf.size();
    result.push_back({elf.c_str() + names + s.sh_name, stored ? elf.substr(s.sh_offset, s.sh_size) : "",
                      s.sh_type, s.sh_info});
  }
  return result;
}

// The attributes of .nv.info, named as in cuobjdump.
constexpr uint8_t kRequiredThreads = 0x10, kParameterInfo = 0x17, kParameterBytes = 0x19;
constexpr uint8_t kByteOrHalf[] = {0x02, 0x03}, kSized = 0x04;

// Calls visit(attribute, payload) for every attribute.
template <typename Visit>
void for_each_attribute(const std::string& info, Visit visit) {
  for (size_t p = 0; p + 4 <= info.size();) {
    const auto format = at<uint8_t>(info, p), attribute = at<uint8_t>(info, p + 1);
    if (format == kSized) {
      const auto size = at<uint16_t>(info, p + 2);
      visit(attribute, info.substr(p + 4, size));
      p += 4 + size;
    } else {
      if (format == kByteOrHalf[0] || format == kByteOrHalf[1]) visit(attribute, info.substr(p + 2, 2));
      p += 4;
    }
  }
}

KernelFacts parse_kernel_info(const std::string& info) {
  KernelFacts facts;
  std::map<int, std::pair<int64_t, int64_t>> parameters;
  for_each_attribute(info, [&](uint8_t attribute, const std::string& payload) {
    if (attribute == kParameterBytes) facts.parameter_bytes = at<uint16_t>(payload, 0);
    // u32 index, u16 ordinal, u16 offset, u32 with the size in the upper 14 bits.
    if (attribute == kParameterInfo)
      parameters[at<uint16_t>(payload, 4)] = {at<uint16_t>(payload, 6), at<uint32_t>(payload, 8) >> 18};
    if (attribute == kRequiredThreads)
      for (int i = 0; i < 3; ++i) facts.workgroup[i] = at<uint32_t>(payload, 4 * i);
  });
  for (const auto& [ordinal, place] : parameters) facts.parameters.push_back(place);
  return facts;
}

// The NT_AMDGPU_METADATA note of an AMD code object; null if there is none.
nlohmann::json metadata_of(const std::string& elf) {
  constexpr uint32_t kMetadata = 32;
  for (const Section& s : sections_of(elf)) {
    if (s.type != SHT_NOTE) continue;
    const auto note = at<Elf64_Nhdr>(s.bytes, 0);
    if (note.n_type != kMetadata) continue;
    const size_t text = sizeof(note) + (note.n_namesz + 3) / 4 * 4;
    const auto metadata = nlohmann::json::from_msgpack(s.bytes.substr(text, note.n_descsz), true, false);
    if (!metadata.is_discarded()) return metadata;
  }
  return nullptr;
}

// FLOAT_DENORM_MODE from the kernel descriptor (symbol NAME.kd): bits 16 to 19 of compute_pgm_rsrc1, which is at byte
// 48 (LLVM's AMDGPU usage guide, "Kernel Descriptor"). -1 if the symbol is not found.
int64_t denormals_of(const std::string& elf, const std::string& kernel) {
  const auto header = at<Elf64_Ehdr>(elf, 0);
  const auto section = [&](size_t i) { return at<Elf64_Shdr>(elf, header.e_shoff + i * header.e_shentsize); };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    for (size_t s = 0; s < symbols.sh_size; s += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(elf, symbols.sh_offset + s);
      const size_t name = section(symbols.sh_link).sh_offset + symbol.st_name;
      if (name >= elf.size() || elf.c_str() + name != kernel + ".kd") continue;
      const Elf64_Shdr home = section(symbol.st_shndx);
      return at<uint32_t>(elf, home.sh_offset + symbol.st_value - home.sh_addr + 48) >> 16 & 15;
    }
  }
  return -1;
}

}  // namespace

HsacoTarget read_hsaco_target(const std::string& elf) {
  const auto header = at<Elf64_Ehdr>(elf, 0);
  HsacoTarget target{header.e_machine, header.e_ident[EI_ABIVERSION], header.e_flags, ""};
  const nlohmann::json metadata = metadata_of(elf);
  if (metadata.is_object()) target.name = metadata.value("amdhsa.target", "");
  return target;
}

KernelTable read_hsaco(const std::string& elf) {
  KernelTable table;
  const nlohmann::json metadata = metadata_of(elf);
  if (!metadata.is_object()) return table;
  for (const auto& kernel : metadata.at("amdhsa.kernels")) {
    KernelFacts& facts = table[kernel.at(".name").get<std::string>()];
    const auto number = [&](const char* name) { return kernel.at(name).get<int64_t>(); };
    facts.parameter_bytes = number(".kernarg_segment_size");
    for (const auto& a : kernel.at(".args")) facts.parameters.emplace_back(a.at(".offset"), a.at(".size"));
    if (kernel.contains(".reqd_workgroup_size"))
      for (int i = 0; i < 3; ++i) facts.workgroup[i] = kernel.at(".reqd_workgroup_size")[i].get<int64_t>();
    facts.shared_bytes = number(".group_segment_fixed_size");
    facts.scratch_bytes = number(".private_segment_fixed_size");
    facts.spills = number(".vgpr_spill_count") + number(".sgpr_spill_count");
    facts.registers = number(".vgpr_count");
    facts.scalar_registers = number(".sgpr_count");
    facts.accumulation_registers = kernel.value(".agpr_count", int64_t{0});
    facts.wave = number(".wavefront_size");
    facts.denormals = denormals_of(elf, kernel.at(".name").get<std::string>());
  }
  return table;
}

KernelTable read_cubin(const std::string& elf, const nlohmann::json& metadata) {
  const std::string prefix = ".nv.info.";
  KernelTable table;
  for (const Section& s : sections_of(elf))
    if (s.name.compare(0, prefix.size(), prefix) == 0)
      table[s.name.substr(prefix.size())] = parse_kernel_info(s.bytes);
  for (auto& [name, facts] : table) {
    const nlohmann::json& kernel = metadata.at("kernels").at(name);
    facts.scratch_bytes = kernel.at("stack_bytes").get<int64_t>();
    facts.spills = kernel.at("spill_bytes").get<int64_t>();
    facts.registers = kernel.at("registers").get<int64_t>();
    facts.shared_bytes = kernel.at("shared_bytes").get<int64_t>();
  }
  return table;
}

}  // namespace lathe
