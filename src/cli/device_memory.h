// Owners of device memory and of streams.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe::cli {

// A block of device memory. Must be destroyed before its device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Allocates a block and copies `image` into it. The copy is complete when `stream` is synchronised.
  static absl::StatusOr<DeviceBuffer> make(lathe_device* device, lathe_stream stream,
                                           const std::vector<uint8_t>& image);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  // Copy the whole block. `image` must have its size. The copy is complete when `stream` is synchronised.
  absl::Status upload(lathe_stream stream, const std::vector<uint8_t>& image) const;
  absl::Status download(lathe_stream stream, std::vector<uint8_t>* image) const;

 private:
  lathe_device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// A new stream on a GPU, null on the CPU. Must be destroyed before its device.
class Stream {
 public:
  Stream() = default;
  static absl::StatusOr<Stream> make(lathe_device* device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  lathe_stream get() const { return stream_; }
  // How many copies of an operand are in host memory: its image, and on the CPU also its device memory.
  int host_copies() const { return stream_ == nullptr ? 2 : 1; }
  absl::Status synchronize() const;

 private:
  lathe_device* device_ = nullptr;
  lathe_stream stream_ = nullptr;
};

// kResourceExhausted if this machine has less than `bytes` of memory; the error names `request`.
absl::Status check_memory(const std::string& request, double bytes);

}  // namespace lathe::cli
