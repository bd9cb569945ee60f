// The live ranges of global memory: every access of a kernel is looked up here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace lathe::ptx {

class AddressMap {
 public:
  // Ranges do not overlap and have at least one byte. `label` names the range in messages.
  void add(uint64_t address, uint64_t size, std::string label);
  void remove(uint64_t address);
  bool contains(uint64_t address, uint64_t size) const {
    const Entry& entry = recent_[(address >> 12) % recent_.size()];
    if (address >= entry.low && size <= entry.high - address && address < entry.high) return true;
    return look_up(address, size);
  }
  // The range that holds the address: {start, size}, or size 0.
  std::pair<uint64_t, uint64_t> range(uint64_t address) const;
  // "0x... is 16 bytes behind the end of <label> [0x..., 0x...)".
  std::string describe(uint64_t address) const;

 private:
  struct Range {
    uint64_t end;
    std::string label;
  };
  struct Entry {
    uint64_t low = 0, high = 0;
  };
  bool look_up(uint64_t address, uint64_t size) const;
  std::map<uint64_t, Range> ranges_;
  mutable std::array<Entry, 64> recent_;
};

}  // namespace lathe::ptx
