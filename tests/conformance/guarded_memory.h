// An operand's memory, watched on all sides. On the CPU it lies between two inaccessible pages: a kernel that
// touches a byte before or after it faults, and so does one that writes an input. On a device with memory of
// its own it lies between bands of NaN: what is read there spoils a result, and what is written there, or to
// an input, is found when the memory is fetched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/lathe.h"

namespace lathe::conformance {

// Which end of the operand lies against the watched memory, at its own alignment.
enum class Flush { kEnd, kStart };

class GuardedMemory {
 public:
  // `bytes` may be 0. The operand starts (kStart) or ends (kEnd) `misalign` bytes from a page's boundary, on
  // a device from one of 256 bytes.
  GuardedMemory(size_t bytes, Flush flush, size_t misalign = 0);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  // What the host sees: the memory itself, or the image of a device's.
  uint8_t* data() const { return data_; }
  // What a kernel is given.
  void* address() const { return address_; }
  size_t bytes() const { return bytes_; }

  // From the host's view to the device's and back; fetch() waits for the null stream. Nothing to do on the
  // CPU.
  void publish() const;
  void fetch() const;
  // The operand is complete, and an input: publishes it, and a write from now on faults on the CPU.
  // write_protect(false) undoes the latter.
  void write_protect(bool on = true);
  // On a device: it still holds what was published, bands included. On the CPU a write would have faulted.
  bool unchanged() const;
  // The bytes around the operand are as they were at construction (on a device: when last fetched).
  bool canaries_intact() const;

  // Memory made from now on is `device`'s, which must outlive it; null: the host's. Not while another thread
  // makes any.
  static void use_device(lathe_device* device);

 private:
  void map_pages(Flush flush, size_t misalign);
  void allocate_on(lathe_device* device, Flush flush, size_t misalign);

  uint8_t canary_ = 0xA5;
  uint8_t* data_ = nullptr;
  void* address_ = nullptr;
  size_t bytes_ = 0;
  uint8_t* begin_ = nullptr;  // of the accessible bytes around the operand, the host's view
  size_t accessible_ = 0;
  uint8_t* mapping_ = nullptr;      // CPU: guard page, accessible_ bytes, guard page
  lathe_device* device_ = nullptr;  // null: the host's memory
  void* device_memory_ = nullptr;   // as large as image_
  mutable std::vector<uint8_t> image_;
};

// What a fault prints before the process dies of it. Process-wide; the last one set wins.
void set_current_case(const std::string& description);

}  // namespace lathe::conformance
