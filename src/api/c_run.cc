// C entry points: running and warming up.
#include "api/boundary.h"
#include "api/c_arguments.h"
#include "api/dispatch.h"
#include "api/warm.h"

using lathe::at_boundary;
using lathe::null_argument;
using lathe::Purpose;
using lathe::Request;

namespace {

absl::Status warm(lathe_device& device, const Request& weight, int64_t m_max, lathe_warm_report* report) {
  if (report != nullptr) LATHE_RETURN_IF_ERROR(lathe::check_out_struct("lathe_warm_report", report));
  LATHE_ASSIGN_OR_RETURN(const std::vector<lathe::ProblemClass> classes,
                         lathe::classes_of(device, weight, m_max));
  lathe_warm_report unwanted = LATHE_WARM_REPORT_INIT;
  return lathe::warm_classes(device, weight, classes, m_max, report != nullptr ? report : &unwanted);
}

absl::Status classes(const lathe_device& device, const Request& weight, int64_t m_max, lathe_text_fn text,
                     void* user) {
  LATHE_ASSIGN_OR_RETURN(const std::vector<lathe::ProblemClass> all,
                         lathe::classes_of(device, weight, m_max));
  for (const lathe::ProblemClass& c : all) lathe::pass_text(text, user, "class", lathe::to_json(c));
  return absl::OkStatus();
}

}  // namespace

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

lathe_status lathe_warm_matmul(lathe_device* device, const lathe_matmul_desc* desc, int64_t m_max,
                               lathe_warm_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_warm_matmul", "device");
    Request weight;
    LATHE_RETURN_IF_ERROR(
        lathe::read_matmul(desc, Purpose::kWarm, device->request_context(), nullptr, &weight));
    return warm(*device, weight, m_max, report);
  });
}

lathe_status lathe_warm_argmax(lathe_device* device, const lathe_argmax_desc* desc,
                               lathe_warm_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_warm_argmax", "device");
    Request rows;
    LATHE_RETURN_IF_ERROR(
        lathe::read_argmax(desc, Purpose::kWarm, device->request_context(), nullptr, &rows));
    return warm(*device, rows, lathe::kMaxDim, report);
  });
}

lathe_status lathe_warm_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                      int64_t m_max, lathe_warm_report* report) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_warm_matmul_argmax", "device");
    Request weight;
    LATHE_RETURN_IF_ERROR(
        lathe::read_matmul_argmax(desc, Purpose::kWarm, device->request_context(), nullptr, &weight));
    return warm(*device, weight, m_max, report);
  });
}

lathe_status lathe_classes_matmul(lathe_device* device, const lathe_matmul_desc* desc, int64_t m_max,
                                  lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_classes_matmul", "device");
    if (text == nullptr) return null_argument("lathe_classes_matmul", "text");
    Request weight;
    LATHE_RETURN_IF_ERROR(
        lathe::read_matmul(desc, Purpose::kWarm, device->request_context(), nullptr, &weight));
    return classes(*device, weight, m_max, text, user);
  });
}

lathe_status lathe_classes_matmul_argmax(lathe_device* device, const lathe_matmul_argmax_desc* desc,
                                         int64_t m_max, lathe_text_fn text, void* user) {
  return at_boundary([&]() -> absl::Status {
    if (device == nullptr) return null_argument("lathe_classes_matmul_argmax", "device");
    if (text == nullptr) return null_argument("lathe_classes_matmul_argmax", "text");
    Request weight;
    LATHE_RETURN_IF_ERROR(
        lathe::read_matmul_argmax(desc, Purpose::kWarm, device->request_context(), nullptr, &weight));
    return classes(*device, weight, m_max, text, user);
  });
}

}  // extern "C"
