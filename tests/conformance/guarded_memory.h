// Memory between two inaccessible pages: a kernel that touches a byte before or after its operand faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lathe::conformance {

// Which end of the operand lies against an inaccessible page.
enum class Flush { kEnd, kStart };

class GuardedMemory {
 public:
  // `bytes` may be 0. The operand starts (kStart) or ends (kEnd) `misalign` bytes from the guard page.
  GuardedMemory(size_t bytes, Flush flush, size_t misalign = 0);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // A write from now on faults; write_protect(false) undoes it.
  void write_protect(bool on = true);
  // The accessible bytes around the operand, filled with kCanary at construction, are as they were.
  bool canaries_intact() const;

  static constexpr uint8_t kCanary = 0xA5;

 private:
  uint8_t* mapping_ = nullptr;  // guard page, accessible_ bytes, guard page
  size_t accessible_ = 0;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

// What a fault prints before the process dies of it. Process-wide; the last one set wins.
void set_current_case(const std::string& description);

}  // namespace lathe::conformance
