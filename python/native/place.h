// Where the arrays of a call lie, and the stream that its work goes to.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

namespace lathe_python {

namespace nb = nanobind;

// A device of Lathe.
struct Place {
  enum Kind : int32_t { kCpu, kCuda, kHip };
  Kind kind = kCpu;
  int32_t index = 0;
  bool operator==(const Place& other) const { return kind == other.kind && index == other.index; }
};

// "cpu", "cuda:0", "hip:1".
std::string device_name(Place place);
// The reverse. Throws ValueError.
Place place_of_name(const std::string& name);
// The device whose memory DLPack names. Pinned host memory is the CPU's. Throws ValueError for other devices.
Place place_of_dlpack(int32_t device_type, int32_t device_id, const char* argument);

// DLPack's table of C functions for the objects of one type (DLPackExchangeAPI, DLPack 1.3), as far as Lathe calls it.
// __dlpack__, which makes a capsule, takes some ten times as long.
struct DlpackExchange {
  struct {
    uint32_t major, minor;
  } version;
  const DlpackExchange* older;
  void *allocate, *export_owned, *import_owned;
  // Both return 0, or -1 with a Python exception.
  int (*view)(void* object, nb::dlpack::dltensor* out);  // orders nothing between streams
  int (*current_stream)(int32_t device_type, int32_t device_id, void** stream);
};
// The table of a type, or null. Remembers the last types, which then live until the process ends.
const DlpackExchange* exchange_of(PyTypeObject* type);

// Where one call runs: the device of its arrays, and on a GPU the current stream of the library of its first array.
class Target {
 public:
  // `describes`: no element is read or written, so arrays in CPU memory may stand for arrays of the device.
  explicit Target(bool describes = false) : describes_(describes) {}
  // Every array joins before its memory is used. Throws ValueError if it lies elsewhere than the first.
  void join(nb::handle object, const char* argument, Place place) {
    if (place.kind == Place::kCpu && !on_gpu() && first_ == nullptr) first_ = argument;
    if (first_ == nullptr || !(place == place_)) join_other(object, argument, place);
  }

  Place place() const { return place_; }
  bool on_gpu() const { return place_.kind != Place::kCpu; }
  lathe_stream stream() const { return stream_; }
  // The library of the first array has no current stream: the work goes to the default stream, and the call must wait
  // for it, because the library may reuse the memory afterwards.
  bool waits() const { return waits_; }
  // Whether work in the current stream of the array's library is ordered before the call without more.
  bool has_stream_of(const DlpackExchange& exchange) const;
  // What __dlpack__ takes as `stream`, so that the array's library makes the call's stream wait for pending work.
  int64_t dlpack_stream() const;

 private:
  void join_other(nb::handle object, const char* argument, Place place);
  void take_stream(nb::handle object);

  bool describes_;
  const char* first_ = nullptr;  // the argument that decided
  Place place_;
  lathe_stream stream_ = nullptr;
  bool waits_ = false;
};

}  // namespace lathe_python
