// Memory of an operand that detects accesses outside it. On the CPU it is between two inaccessible pages, so such an
// access faults, and so does a write to an input. On a device with its own memory it is between bands of NaN: a read
// there spoils the result, and a write there, or to an input, is detected when the memory is fetched. On an emulated
// device an inaccessible page can replace the second band (LATHE_TEST_PAGE_OFFSET).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::conformance {

// Which end of the operand touches the guarded memory.
enum class Flush { kEnd, kStart };

class GuardedMemory {
 public:
  // `bytes` may be 0. The operand starts (kStart) or ends (kEnd) `misalign` bytes from a page boundary; on a device,
  // from a multiple of 256 bytes.
  GuardedMemory(size_t bytes, Flush flush, size_t misalign = 0);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // The host's view: the memory itself, or the host copy of device memory.
  uint8_t* data() const { return data_; }
  // The address for a kernel.
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

  // publish() copies the host's view to the device, fetch() copies it back after waiting for the null stream. Neither
  // does anything on the CPU.
  void publish() const;
  void fetch() const;
  // Call this when an input is complete: publishes it and makes later writes fault on the CPU. write_protect(false)
  // allows writes again.
  void write_protect(bool on = true);
  // Whether device memory still holds what was published, bands included. On the CPU a write would have faulted.
  bool unchanged() const;
  // Whether the bytes around the operand are those of construction (on a device: at the last fetch).
  bool canaries_intact() const;

  // Memory created from now on belongs to `device`, which must outlive it; null: to the host. Not thread-safe.
  static void use_device(lathe_device* device);

 private:
  void map_pages(Flush flush, size_t misalign);
  void allocate_on(lathe_device* device, Flush flush, size_t misalign);

  uint8_t canary_ = 0xA5;
  uint8_t* data_ = nullptr;
  void* address_ = nullptr;
  size_t bytes_ = 0;
  uint8_t* begin_ = nullptr;  // start of the accessible bytes around the operand, in the host's view
  size_t accessible_ = 0;
  uint8_t* mapping_ = nullptr;      // CPU: guard page, accessible_ bytes, guard page
  lathe_device* device_ = nullptr;  // null: the host's memory
  void* device_memory_ = nullptr;   // as large as image_
  mutable std::vector<uint8_t> image_;
};

// The text that a fault prints before the process ends. Process-wide; the last call wins.
void set_current_case(const std::string& description);

}  // namespace lathe::conformance
