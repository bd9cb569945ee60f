// The live ranges of global memory. Every access of a kernel to global memory is looked up here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace lathe::ptx {

class AddressMap {
 public:
  // Ranges must not overlap and must not be empty. `label` names the range in messages. The byte at device
  // address `a` is at host address a + bias; a non-zero bias makes a host that dereferences a device pointer
  // fail instead of reading the right bytes by accident.
  void add(uint64_t address, uint64_t size, std::string label, uint64_t bias = 0);
  void remove(uint64_t address);
  // The host address of the bytes, or null unless one range holds all of them.
  uint8_t* find(uint64_t address, uint64_t size) const {
    const Entry& entry = recent_[(address >> 12) % recent_.size()];
    if (address < entry.low || address >= entry.high) return look_up(address, size);
    return size <= entry.high - address ? reinterpret_cast<uint8_t*>(address + entry.bias) : nullptr;
  }
  // The range that contains the address as {start, size}; size 0 if there is none.
  std::pair<uint64_t, uint64_t> range(uint64_t address) const;
  // A message such as "0x... is 16 bytes past the end of <label> [0x..., 0x...)".
  std::string describe(uint64_t address) const;

 private:
  struct Range {
    uint64_t end, bias;
    std::string label;
  };
  struct Entry {
    uint64_t low = 0, high = 0, bias = 0;
  };
  uint8_t* look_up(uint64_t address, uint64_t size) const;
  std::map<uint64_t, Range> ranges_;
  mutable std::array<Entry, 64> recent_;
};

}  // namespace lathe::ptx
