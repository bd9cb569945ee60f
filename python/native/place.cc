#include "place.h"

#include "array.h"

namespace lathe_python {
namespace {

// DLDeviceType of dlpack.h.
enum DlpackDevice : int32_t {
  kDlCpu = 1,
  kDlCuda = 2,
  kDlCudaHost = 3,
  kDlRocm = 10,
  kDlRocmHost = 11,
  kDlCudaManaged = 13,
};

int32_t dlpack_device(Place place) {
  return place.kind == Place::kCuda ? kDlCuda : place.kind == Place::kHip ? kDlRocm : kDlCpu;
}

std::string where(Place place) {
  return place.kind == Place::kCpu ? "in CPU memory" : "on " + device_name(place);
}

}  // namespace

std::string device_name(Place place) {
  if (place.kind == Place::kCpu) return "cpu";
  return (place.kind == Place::kCuda ? "cuda:" : "hip:") + std::to_string(place.index);
}

Place place_of_name(const std::string& name) {
  if (name == "cpu") return {};
  for (const Place::Kind kind : {Place::kCuda, Place::kHip})
    for (int32_t index = 0; index < 64; ++index)
      if (name == device_name({kind, index})) return {kind, index};
  value_error("device is '" + name + "', but must be 'cpu', 'cuda:0', 'hip:0' and so on");
}

Place place_of_dlpack(int32_t device_type, int32_t device_id, const char* argument) {
  switch (device_type) {
    case kDlCpu:
    case kDlCudaHost:
    case kDlRocmHost: return {};
    case kDlCuda:
    case kDlCudaManaged: return {Place::kCuda, device_id};
    case kDlRocm: return {Place::kHip, device_id};
    default:
      value_error(std::string(argument) + " is on a device of DLPack's type " + std::to_string(device_type) +
                  ", but Lathe computes on the CPU, CUDA (2) and ROCm (10). Copy it to one of them first");
  }
}

const DlpackExchange* exchange_of(PyTypeObject* type) {
  static struct {
    PyTypeObject* type;
    const DlpackExchange* exchange;
  } known[4] = {};
  static int next = 0;
  for (const auto& one : known)
    if (one.type == type) return one.exchange;
  const DlpackExchange* exchange = nullptr;
  if (nb::object capsule = nb::getattr(nb::handle(reinterpret_cast<PyObject*>(type)),
                                       "__dlpack_c_exchange_api__", nb::handle());
      capsule.is_valid()) {
    exchange = static_cast<const DlpackExchange*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    if (exchange == nullptr) PyErr_Clear();
    while (exchange != nullptr && exchange->version.major != 1) exchange = exchange->older;
  }
  Py_XDECREF(known[next].type);
  Py_INCREF(type);
  known[next] = {type, exchange};
  next = (next + 1) % 4;
  return exchange;
}

void Target::join_other(nb::handle object, const char* argument, Place place) {
  if (first_ != nullptr && !(place == place_)) {
    if (describes_ && place.kind == Place::kCpu) return;
    if (!describes_ || on_gpu())
      value_error(std::string(first_) + " is " + where(place_) + ", but " + argument + " is " + where(place) +
                  ". Move them to one device");
  }
  first_ = argument;
  place_ = place;
  if (on_gpu() && !describes_) take_stream(object);
}

void Target::take_stream(nb::handle object) {
  if (const DlpackExchange* exchange = exchange_of(Py_TYPE(object.ptr()))) {
    if (exchange->current_stream(dlpack_device(place_), place_.index, &stream_) != 0)
      throw nb::python_error();
    return;
  }
  const nb::object handle =
      nb::module_::import_("lathe._results").attr("current_stream")(object, place_.index);
  waits_ = handle.is_none();
  if (!waits_) stream_ = reinterpret_cast<lathe_stream>(nb::cast<uintptr_t>(handle));
}

bool Target::has_stream_of(const DlpackExchange& exchange) const {
  if (!on_gpu() || describes_) return true;
  void* stream = nullptr;
  if (exchange.current_stream(dlpack_device(place_), place_.index, &stream) != 0) throw nb::python_error();
  return stream == stream_;
}

int64_t Target::dlpack_stream() const {
  if (describes_) return -1;  // nothing waits
  const auto handle = reinterpret_cast<intptr_t>(stream_);
  return handle == 0 && place_.kind == Place::kCuda ? 1 : handle;  // 0 has no meaning in CUDA
}

}  // namespace lathe_python
