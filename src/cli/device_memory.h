// A device's memory and streams with owners.
#pragma once

#include <lathe/lathe.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lathe::cli {

// Must go before its device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // As large as `image`, a copy of it once `stream` is synchronised.
  static absl::StatusOr<DeviceBuffer> make(lathe_device* device, lathe_stream stream,
                                           const std::vector<uint8_t>& image);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  // Both as large as the buffer, both done when `stream` is synchronised.
  absl::Status upload(lathe_stream stream, const std::vector<uint8_t>& image) const;
  absl::Status download(lathe_stream stream, std::vector<uint8_t>* image) const;

 private:
  lathe_device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

// A stream of its own on a GPU, null on the CPU. Must go before its device.
class Stream {
 public:
  Stream() = default;
  static absl::StatusOr<Stream> make(lathe_device* device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  lathe_stream get() const { return stream_; }
  // How often an operand that has an image lies in the host's memory: the CPU's memory is the host's.
  int host_copies() const { return stream_ == nullptr ? 2 : 1; }
  absl::Status synchronize() const;

 private:
  lathe_device* device_ = nullptr;
  lathe_stream stream_ = nullptr;
};

// kResourceExhausted, which names `request`: it needs more bytes than this machine has of memory.
absl::Status check_memory(const std::string& request, double bytes);

}  // namespace lathe::cli
