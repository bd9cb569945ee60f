// The device and its registration: what ggml asks of a backend when it loads the library.
#include <lathe/lathe.h>

#include <cstring>
#include <string>
#include <utility>

#include "backend.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "ggml.h"
#include "gpu.h"
#include "weights.h"

static_assert(GGML_BACKEND_API_VERSION == 2,
              "This backend was written for version 2 of ggml's backend interface.");

namespace lathe_ggml {
namespace {

const char* device_name(ggml_backend_dev_t) { return "Lathe"; }
const char* device_description(ggml_backend_dev_t) {
  static const std::string text =
      std::string("Lathe ") + lathe_version() + ": products compiled for each weight";
  return text.c_str();
}
void device_memory(ggml_backend_dev_t, size_t* free, size_t* total) { *free = *total = 0; }
enum ggml_backend_dev_type device_type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; }
void device_properties(ggml_backend_dev_t device, ggml_backend_dev_props* properties) {
  *properties = {};
  properties->name = device_name(device), properties->description = device_description(device);
  properties->type = device_type(device);
}
bool supports_op(ggml_backend_dev_t, const ggml_tensor* op) { return takes(op); }
bool supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t buft) {
  return is_weight_buffer_type(buft) || ggml_backend_dev_supports_buft(cpu_device(), buft);
}

ggml_backend_device_i device_interface() {
  ggml_backend_device_i iface = {};
  iface.get_name = device_name, iface.get_description = device_description, iface.get_memory = device_memory;
  iface.get_type = device_type, iface.get_props = device_properties;
  iface.supports_op = supports_op, iface.supports_buft = supports_buffer_type;
  return iface;
}

// The device of an open backend. Its buffers are the CPU's, so ggml's CPU backend reads results without a copy. The
// registered device differs only in its buffers: those are for weights.
ggml_backend_device compute_device(ggml_backend_reg_t reg) {
  ggml_backend_device d = {device_interface(), reg, nullptr};
  d.iface.get_buffer_type = [](ggml_backend_dev_t) { return ggml_backend_cpu_buffer_type(); };
  d.iface.init_backend = [](ggml_backend_dev_t self, const char*) {
    return Backend::create(compute_device(self->reg));
  };
  d.iface.supports_op = [](ggml_backend_dev_t self, const ggml_tensor* op) {
    return static_cast<Backend*>(self->context)->takes(op);
  };
  return d;
}
ggml_backend_dev_t weight_device(ggml_backend_reg_t reg) {
  static ggml_backend_device device = [&] {
    ggml_backend_device d = {device_interface(), reg, nullptr};
    d.iface.get_buffer_type = weight_buffer_type;
    d.iface.init_backend = [](ggml_backend_dev_t self, const char*) {
      return Backend::create(compute_device(self->reg));
    };
    return d;
  }();
  return &device;
}

void set_threads(ggml_backend_t backend, int threads) {
  if (Backend::is(backend)) Backend::of(backend).set_threads(threads);
}
void set_abort_callback(ggml_backend_t backend, ggml_abort_callback callback, void* data) {
  if (Backend::is(backend)) Backend::of(backend).set_abort_callback(callback, data);
}

void* function_named(ggml_backend_reg_t, const char* name) {
  if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) return reinterpret_cast<void*>(set_threads);
  if (std::strcmp(name, "ggml_backend_set_abort_callback") == 0)
    return reinterpret_cast<void*>(set_abort_callback);
  return nullptr;
}

// ggml's structs change without a new version of the interface, so compare what this backend relies on.
const char* difference_from_loaded_ggml() {
  constexpr size_t kObjectBytes = 32;  // of ggml_object, which ggml_tensor_overhead() includes
  if (ggml_tensor_overhead() != kObjectBytes + sizeof(ggml_tensor)) return "ggml_tensor has another size";
  const std::pair<ggml_op, const char*> operations[] = {{GGML_OP_MUL_MAT, "MUL_MAT"},
                                                        {GGML_OP_MUL_MAT_ID, "MUL_MAT_ID"},
                                                        {GGML_OP_ARGMAX, "ARGMAX"},
                                                        {GGML_OP_FLASH_ATTN_EXT, "FLASH_ATTN_EXT"},
                                                        {GGML_OP_CUSTOM, "CUSTOM"}};
  for (const auto& [op, name] : operations) {
    if (std::strcmp(ggml_op_name(op), name) != 0) return "operations have other numbers";
  }
  if (std::strcmp(ggml_type_name(GGML_TYPE_MXFP4), "mxfp4") != 0) return "types have other numbers";
  if (cpu_device() == nullptr) return "it has no CPU backend, which this backend needs";
  return nullptr;
}

}  // namespace
}  // namespace lathe_ggml

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
  using namespace lathe_ggml;
  if (const char* difference = difference_from_loaded_ggml()) {
    GGML_LOG_ERROR(
        "lathe: this backend was built for ggml %s and cannot be used with ggml %s: %s. "
        "Build it with -DGGML_DIR=<the source tree of that ggml>\n",
        LATHE_GGML_VERSION, ggml_version(), difference);
    return nullptr;
  }
  static ggml_backend_reg registration = [] {
    ggml_backend_reg r = {};
    r.api_version = GGML_BACKEND_API_VERSION;
    r.iface.get_name = [](ggml_backend_reg_t) { return "Lathe"; };
    r.iface.get_device_count = [](ggml_backend_reg_t reg) { return 1 + gpu_devices(reg).size(); };
    r.iface.get_device = [](ggml_backend_reg_t reg, size_t index) {
      return index == 0 ? weight_device(reg) : gpu_devices(reg)[index - 1];
    };
    r.iface.get_proc_address = function_named;
    return r;
  }();
  return &registration;
}
