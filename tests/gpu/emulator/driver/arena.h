// Device memory: address ranges that the host cannot touch, whose bytes it finds elsewhere.
//
// The devices' addresses are reserved without any access, so that host code which follows a device pointer
// dies as it would with a device; the same file is mapped a second time for the interpreter and the copies.
// No address is given out twice before the range is used up, and every allocation has a gap behind it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace lathe::emulator {

class Arena {
 public:
  // Null if the system gives no address space at all. The addresses begin at `near` where that is free, so
  // that another process can map the file at the same ones.
  static std::unique_ptr<Arena> create(uint64_t near = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 0 if there is no room. Aligned to 256 bytes, as the device promises, and to no more.
  uint64_t allocate(uint64_t bytes);
  // False if the address is no allocation's start.
  bool release(uint64_t address);
  uint64_t size_of(uint64_t address) const;
  // To add to a device address for the host's.
  uint64_t bias() const { return bias_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  uint64_t base() const { return base_; }
  int file() const { return file_; }  // the bytes, from base() on

 private:
  Arena() = default;
  bool map(uint64_t capacity, uint64_t near);
  struct Block {
    uint64_t first_page, pages, bytes;
  };
  int file_ = -1;
  uint64_t base_ = 0, bias_ = 0, capacity_ = 0, next_ = 0, used_ = 0;
  std::map<uint64_t, Block> blocks_;  // by address
};

}  // namespace lathe::emulator
