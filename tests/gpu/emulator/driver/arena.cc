#include "tests/gpu/emulator/driver/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lathe::emulator {
namespace {

constexpr uint64_t kPage = 4096;
// An allocation starts here in its first page: aligned to 256 bytes, but not to more.
constexpr uint64_t kOffset = 256;
// Poisoning touches memory. Beyond this size, only the two ends of an allocation are poisoned.
constexpr uint64_t kPoison = uint64_t{64} << 20;

}  // namespace

std::unique_ptr<Arena> Arena::create(uint64_t near) {
  std::unique_ptr<Arena> arena(new Arena);
  // The address space may be limited, so try smaller sizes, starting with 256 GiB.
  for (uint64_t capacity = uint64_t{256} << 30; capacity >= uint64_t{256} << 20; capacity /= 4) {
    if (arena->map(capacity, near)) return arena;
  }
  return nullptr;
}

bool Arena::map(uint64_t capacity, uint64_t near) {
  const int file = memfd_create("device memory", MFD_CLOEXEC);
  if (file < 0) return false;
  void* addresses = MAP_FAILED;
  void* bytes = MAP_FAILED;
  if (ftruncate(file, static_cast<off_t>(capacity)) == 0) {
    addresses = mmap(reinterpret_cast<void*>(near), capacity, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bytes = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  if (addresses == MAP_FAILED || bytes == MAP_FAILED) {
    if (addresses != MAP_FAILED) munmap(addresses, capacity);
    if (bytes != MAP_FAILED) munmap(bytes, capacity);
    close(file);
    return false;
  }
  file_ = file;
  base_ = reinterpret_cast<uint64_t>(addresses);
  bias_ = reinterpret_cast<uint64_t>(bytes) - base_;
  capacity_ = capacity;
  return true;
}

Arena::~Arena() {
  if (file_ < 0) return;
  munmap(reinterpret_cast<void*>(base_), capacity_);
  munmap(reinterpret_cast<void*>(base_ + bias_), capacity_);
  close(file_);
}

uint64_t Arena::allocate(uint64_t bytes) {
  if (bytes > capacity_) return 0;
  const uint64_t pages = (kOffset + bytes + kPage - 1) / kPage + 1;  // an unmapped page follows
  // Addresses are used round robin. If the next ones are in use, take the first gap that is large enough.
  uint64_t first = next_;
  for (int round = 0; round < 2; ++round) {
    if (first + pages * kPage > capacity_) first = 0;
    for (const auto& [address, block] : blocks_) {
      if (block.first_page + block.pages * kPage <= first) continue;
      if (block.first_page >= first + pages * kPage) break;
      first = block.first_page + block.pages * kPage;
    }
    if (first + pages * kPage <= capacity_) break;
    first = 0;
  }
  if (first + pages * kPage > capacity_) return 0;
  const uint64_t address = base_ + first + kOffset;
  blocks_[address] = {first, pages, bytes};
  next_ = first + pages * kPage;
  used_ += bytes;
  uint8_t* host = reinterpret_cast<uint8_t*>(address + bias_);
  if (bytes <= 2 * kPoison) {
    std::memset(host, 0xff, bytes);  // a NaN in every format
  } else {
    std::memset(host, 0xff, kPoison);
    std::memset(host + bytes - kPoison, 0xff, kPoison);
  }
  return address;
}

bool Arena::release(uint64_t address) {
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return false;
  used_ -= it->second.bytes;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(it->second.first_page),
            static_cast<off_t>(it->second.pages * kPage));
  blocks_.erase(it);
  return true;
}

uint64_t Arena::size_of(uint64_t address) const {
  const auto it = blocks_.find(address);
  return it == blocks_.end() ? 0 : it->second.bytes;
}

}  // namespace lathe::emulator
