#include "cli/device_memory.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_format.h"
#include "cli/session.h"

namespace lathe::cli {

absl::StatusOr<DeviceBuffer> DeviceBuffer::make(lathe_device* device, lathe_stream stream,
                                                const std::vector<uint8_t>& image) {
  DeviceBuffer buffer;
  buffer.device_ = device;
  if (absl::Status s = check(lathe_device_alloc(device, image.size(), &buffer.data_)); !s.ok()) return s;
  buffer.bytes_ = image.size();
  if (absl::Status s = buffer.upload(stream, image); !s.ok()) return s;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) lathe_device_free(device_, data_);
}

absl::Status DeviceBuffer::upload(lathe_stream stream, const std::vector<uint8_t>& image) const {
  return check(lathe_device_copy(device_, stream, data_, image.data(), bytes_, LATHE_COPY_TO_DEVICE));
}

absl::Status DeviceBuffer::download(lathe_stream stream, std::vector<uint8_t>* image) const {
  return check(lathe_device_copy(device_, stream, image->data(), data_, bytes_, LATHE_COPY_TO_HOST));
}

absl::StatusOr<Stream> Stream::make(lathe_device* device) {
  Stream stream;
  stream.device_ = device;
  if (absl::Status s = check(lathe_stream_create(device, &stream.stream_)); !s.ok()) return s;
  return stream;
}

Stream::Stream(Stream&& other) noexcept { *this = std::move(other); }
Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
  return *this;
}
Stream::~Stream() {
  if (stream_ != nullptr) lathe_stream_destroy(device_, stream_);
}

absl::Status Stream::synchronize() const { return check(lathe_stream_synchronize(device_, stream_)); }

absl::Status check_memory(const std::string& request, double bytes) {
  const double most =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s needs %.4g GB of memory, and this machine has %.4g GB", request, bytes / 1e9, most / 1e9));
}

}  // namespace lathe::cli
