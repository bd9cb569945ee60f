// Device memory. The host cannot access the device addresses; it finds the same bytes at other addresses.
//
// The device addresses are reserved without access rights, so host code that dereferences a device pointer crashes, as
// it does with a real device. The same file is mapped a second time for the interpreter and for copies. An address is
// not reused before the whole range has been used, and a gap follows every allocation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

namespace lathe::emulator {

class Arena {
 public:
  // Null if the system grants no address space. The addresses start at `near` if that is free, so that another
  // process can map the file at the same addresses.
  static std::unique_ptr<Arena> create(uint64_t near = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // 0 if there is no room. The address is aligned to 256 bytes, as the device guarantees, but not to more.
  uint64_t allocate(uint64_t bytes);
  // False if no allocation starts at the address.
  bool release(uint64_t address);
  uint64_t size_of(uint64_t address) const;
  // Host address = device address + bias().
  uint64_t bias() const { return bias_; }
  uint64_t capacity() const { return capacity_; }
  uint64_t used() const { return used_; }
  uint64_t base() const { return base_; }
  int file() const { return file_; }  // holds the bytes from base() on

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
