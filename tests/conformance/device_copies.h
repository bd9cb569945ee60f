// Operands in host memory, and their copies on the device under test.
#pragma once

#include <type_traits>
#include <vector>

#include "device.h"

namespace lathe::conformance {

// Copies of host memory on the device, made with it and copied back by fetch(). On the CPU host memory is used.
class DeviceCopies {
 public:
  explicit DeviceCopies(lathe_device* device) : device_(device) {}
  ~DeviceCopies() {
    for (const Range& r : ranges_) lathe_device_free(device_, r.device);
  }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  void add(void* host, size_t bytes) {
    if (is_cpu() || bytes == 0) return;
    Range r = {static_cast<char*>(host), nullptr, bytes};
    EXPECT_LATHE_OK(lathe_device_alloc(device_, bytes, &r.device));
    EXPECT_LATHE_OK(lathe_device_copy(device_, nullptr, r.device, host, bytes, LATHE_COPY_TO_DEVICE));
    ranges_.push_back(r);
  }
  template <typename T>
  void add(std::vector<T>& host) {
    add(host.data(), host.size() * sizeof(T));
  }
  // Makes `pointer`, if it is within a copied range, point to the copy.
  template <typename T>
  void move(T*& pointer) const {
    const char* const at = reinterpret_cast<const char*>(pointer);
    for (const Range& r : ranges_)
      if (at >= r.host && at < r.host + r.bytes) {
        pointer = reinterpret_cast<T*>(static_cast<char*>(r.device) + (at - r.host));
        return;
      }
  }
  // The descriptor of a product with the copies of its operands.
  template <typename Desc>
  Desc moved(Desc desc) const {
    for (void** data : {&desc.a.data, &desc.b.data, &desc.d.data}) move(*data);
    move(desc.epilogue.bias);
    if constexpr (std::is_same_v<Desc, lathe_grouped_matmul_desc>) {
      move(desc.routing);
      move(desc.router_weights);
    }
    return desc;
  }
  // Copies a range to the device again.
  template <typename T>
  void send(const std::vector<T>& host) const {
    for (const Range& r : ranges_)
      if (r.host == reinterpret_cast<const char*>(host.data()))
        EXPECT_LATHE_OK(lathe_device_copy(device_, nullptr, r.device, r.host, r.bytes, LATHE_COPY_TO_DEVICE));
  }
  void fetch() const {
    for (const Range& r : ranges_)
      EXPECT_LATHE_OK(lathe_device_copy(device_, nullptr, r.host, r.device, r.bytes, LATHE_COPY_TO_HOST));
    if (!ranges_.empty()) EXPECT_LATHE_OK(lathe_stream_synchronize(device_, nullptr));
  }

 private:
  struct Range {
    char* host;
    void* device;
    size_t bytes;
  };
  lathe_device* device_;
  std::vector<Range> ranges_;
};

}  // namespace lathe::conformance
