// C functions: running ops.
#include "api/boundary.h"
#include "dispatch/dispatch.h"

using lathe::at_boundary;

extern "C" {

lathe_status lathe_matmul(lathe_device* device, lathe_stream stream, const lathe_matmul_desc* desc) {
  return at_boundary([&] { return lathe::run_matmul(device, stream, desc); });
}

lathe_status lathe_argmax(lathe_device* device, lathe_stream stream, const lathe_argmax_desc* desc) {
  return at_boundary([&] { return lathe::run_argmax(device, stream, desc); });
}

lathe_status lathe_matmul_argmax(lathe_device* device, lathe_stream stream,
                                 const lathe_matmul_argmax_desc* desc) {
  return at_boundary([&] { return lathe::run_matmul_argmax(device, stream, desc); });
}

lathe_status lathe_elementwise(lathe_device* device, lathe_stream stream,
                               const lathe_elementwise_desc* desc) {
  return at_boundary([&] { return lathe::run_elementwise(device, stream, desc); });
}

}  // extern "C"
