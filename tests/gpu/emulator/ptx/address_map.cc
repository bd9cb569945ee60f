#include "tests/gpu/emulator/ptx/address_map.h"

#include "absl/strings/str_format.h"

namespace lathe::ptx {

void AddressMap::add(uint64_t address, uint64_t size, std::string label, uint64_t bias) {
  ranges_[address] = {address + size, bias, std::move(label)};
}

void AddressMap::remove(uint64_t address) {
  ranges_.erase(address);
  recent_ = {};
}

uint8_t* AddressMap::look_up(uint64_t address, uint64_t size) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  --it;
  if (address >= it->second.end) return nullptr;
  recent_[(address >> 12) % recent_.size()] = {it->first, it->second.end, it->second.bias};
  return size <= it->second.end - address ? reinterpret_cast<uint8_t*>(address + it->second.bias) : nullptr;
}

std::pair<uint64_t, uint64_t> AddressMap::range(uint64_t address) const {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return {0, 0};
  --it;
  return address < it->second.end ? std::make_pair(it->first, it->second.end - it->first)
                                  : std::make_pair(uint64_t{0}, uint64_t{0});
}

std::string AddressMap::describe(uint64_t address) const {
  auto after = ranges_.upper_bound(address);
  if (after != ranges_.begin()) {
    const auto before = std::prev(after);
    const bool inside = address < before->second.end;
    const uint64_t distance = inside ? address - before->first : address - before->second.end;
    if (inside || after == ranges_.end() || distance <= after->first - address) {
      return absl::StrFormat("0x%x is %u bytes %s %s [0x%x, 0x%x)", address, distance,
                             inside ? "into" : "past the end of", before->second.label, before->first,
                             before->second.end);
    }
  }
  if (after == ranges_.end()) return absl::StrFormat("0x%x, and no memory is allocated", address);
  return absl::StrFormat("0x%x is %u bytes before %s [0x%x, 0x%x)", address, after->first - address,
                         after->second.label, after->first, after->second.end);
}

}  // namespace lathe::ptx
