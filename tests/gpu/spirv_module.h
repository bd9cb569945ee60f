// What a SPIR-V module says of itself, read from its words (SPIR-V 1.2 specification, "Physical layout").
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace lathe {

struct SpirvEntryPoint {
  std::array<int32_t, 3> local_size = {0, 0, 0};  // OpExecutionMode LocalSize
  int32_t subgroup_size = 0;                      // OpExecutionMode SubgroupSize; 0: the device's choice
};

struct SpirvModule {
  uint32_t version = 0;  // 0x00010200
  std::map<std::string, SpirvEntryPoint> entry_points;
  std::set<uint32_t> capabilities;  // their numbers
  std::set<std::string> extensions;
  std::set<std::string> imports;  // linked from elsewhere, the built-in variables left out
};

// Throws std::runtime_error for what is no SPIR-V.
SpirvModule read_spirv(const std::string& bytes);

}  // namespace lathe
