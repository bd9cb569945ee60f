#include "spirv_module.h"

#include <cstring>
#include <stdexcept>
#include <vector>

namespace lathe {
namespace {

// Opcodes and operands, numbered as in the specification.
enum Op : uint32_t {
  kExtension = 10,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kDecorate = 71
};
enum Operand : uint32_t { kLocalSize = 17, kSubgroupSize = 35, kBuiltIn = 11, kLinkage = 41, kImport = 1 };

using Words = std::vector<uint32_t>;

// A zero-terminated literal string at word `at`. `next` receives the index of the next operand.
std::string text_at(const Words& words, size_t at, size_t* next = nullptr) {
  std::string text;
  for (; at < words.size(); ++at)
    for (int byte = 0; byte < 4; ++byte) {
      const char c = static_cast<char>(words[at] >> 8 * byte);
      if (c == 0) {
        if (next) *next = at + 1;
        return text;
      }
      text += c;
    }
  throw std::runtime_error("a string is not terminated");
}

Words words_of(const std::string& bytes) {
  if (bytes.size() % 4 != 0 || bytes.size() < 20) throw std::runtime_error("not SPIR-V: wrong size");
  Words words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), bytes.size());
  if (words[0] != 0x07230203) throw std::runtime_error("not SPIR-V: wrong magic number");
  return words;
}

}  // namespace

SpirvModule read_spirv(const std::string& bytes) {
  const Words all = words_of(bytes);
  SpirvModule module;
  module.version = all[1];
  std::map<uint32_t, SpirvEntryPoint> modes;
  std::map<uint32_t, std::string> entries, imports;
  std::set<uint32_t> builtins;
  for (size_t at = 5; at < all.size();) {
    const uint32_t size = all[at] >> 16, op = all[at] & 0xFFFF;
    if (size == 0 || at + size > all.size()) throw std::runtime_error("an instruction extends past the end");
    const Words i(all.begin() + at, all.begin() + at + size);
    at += size;
    if (op == kCapability) module.capabilities.insert(i.at(1));
    if (op == kExtension) module.extensions.insert(text_at(i, 1));
    if (op == kEntryPoint) entries[i.at(2)] = text_at(i, 3);
    if (op == kExecutionMode && i.at(2) == kLocalSize)
      for (int d = 0; d < 3; ++d) modes[i[1]].local_size[d] = static_cast<int32_t>(i.at(3 + d));
    if (op == kExecutionMode && i.at(2) == kSubgroupSize)
      modes[i[1]].subgroup_size = static_cast<int32_t>(i.at(3));
    if (op == kDecorate && i.at(2) == kBuiltIn) builtins.insert(i[1]);
    if (op == kDecorate && i.at(2) == kLinkage) {
      size_t next = 0;
      const std::string name = text_at(i, 3, &next);
      if (i.at(next) == kImport) imports[i[1]] = name;
    }
  }
  for (const auto& [id, name] : entries) module.entry_points[name] = modes[id];
  for (const auto& [id, name] : imports)
    if (builtins.count(id) == 0) module.imports.insert(name);
  return module;
}

}  // namespace lathe
