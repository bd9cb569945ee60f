// The live ranges of global memory: every access of a kernel is looked up here.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace lathe::ptx {

class AddressMap {
 public:
  // Ranges do not overlap and have at least one byte. `label` names the range in messages. The bytes of
  // address a are at a + bias on the host: a device's memory need not be where the host could read it by
  // accident.
  void add(uint64_t address, uint64_t size, std::string label, uint64_t bias = 0);
  void remove(uint64_t address);
  // Where the bytes are on the host, or null if they are not all of one range.
  uint8_t* find(uint64_t address, uint64_t size) const {
    const Entry& entry = recent_[(address >> 12) % recent_.size()];
    if (address < entry.low || address >= entry.high) return look_up(address, size);
    return size <= entry.high - address ? reinterpret_cast<uint8_t*>(address + entry.bias) : nullptr;
  }
  // The range that holds the address: {start, size}, or size 0.
  std::pair<uint64_t, uint64_t> range(uint64_t address) const;
  // "0x... is 16 bytes behind the end of <label> [0x..., 0x...)".
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
