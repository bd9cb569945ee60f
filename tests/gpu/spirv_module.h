// The contents of a SPIR-V module, read from its words (SPIR-V 1.2 specification, "Physical layout").
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace lathe {

struct SpirvEntryPoint {
  std::array<int32_t, 3> local_size = {0, 0, 0};  // OpExecutionMode LocalSize
  int32_t subgroup_size = 0;                      // OpExecutionMode SubgroupSize; 0: the device decides
};

struct SpirvModule {
  uint32_t version = 0;  // 0x00010200
  std::map<std::string, SpirvEntryPoint> entry_points;
  std::set<uint32_t> capabilities;  // numbers of the specification
  std::set<std::string> extensions;
  std::set<std::string> imports;  // linked symbols, without the built-in variables
};

// Throws std::runtime_error if the bytes are not SPIR-V.
SpirvModule read_spirv(const std::string& bytes);

}  // namespace lathe
