// An array of the caller: anything with the buffer protocol or DLPack, read without a copy.
#pragma once

#include <lathe/lathe.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>

#include "place.h"

namespace lathe_python {

// A view of at most three dimensions. Shape and strides count elements. Keeps the caller's object alive. Reading,
// and destroying a view that was read, need the GIL.
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  // Joins `target`. Throws ValueError, which names the argument `name`, if Lathe cannot read the object (write it, if
  // `writable`), or if it lies elsewhere than the arrays before. `flatten`: all dimensions but the last become one; they must be contiguous.
  void read(Target& target, nb::handle object, const char* name, bool writable = false, bool flatten = false);
  // The same for elements of one byte of any dtype (uint8, float8_e4m3fn ...). Sets `byte_dtype` to its name, and
  // `dtype` to LATHE_I8.
  void read_bytes(Target& target, nb::handle object, const char* name);
  std::string byte_dtype;
  // Inserts a dimension of extent 1 in front of dimension `at`. The array has at most two dimensions.
  void insert_dimension(int at);
  // "float32 of shape (2, 3) and strides (3, 1)", for messages.
  std::string describe() const;

  void* data = nullptr;
  lathe_dtype dtype = LATHE_DTYPE_NONE;
  int ndim = 0;
  int64_t shape[3] = {}, stride[3] = {};

 private:
  void read_numpy(Target& target, nb::handle object, const char* name, bool writable);
  void read_buffer(Target& target, nb::handle object, const char* name, bool writable);
  void read_dlpack(Target& target, nb::handle object, const char* name, bool writable);
  // By DLPack's C functions, if the type of `object` has them. The memory belongs to `object`.
  bool read_exchange(Target& target, nb::handle object, const char* name);
  // What nanobind imports: on a GPU a capsule, whose memory the target's stream may use.
  nb::object export_capsule(Target& target, nb::handle object, const char* name);
  void take_layout(const char* name, int dimensions, const Py_ssize_t* sizes, const Py_ssize_t* byte_strides,
                   int64_t bytes);
  void take_flat(const char* name, int dimensions, const int64_t* sizes, const int64_t* strides);
  void take_tensor(nb::handle object, const char* name, const nb::dlpack::dltensor& tensor);
  // An array without elements is contiguous, but NumPy gives it strides of 0.
  void pack_if_empty();

  // The dtype of an element of `bytes` bytes if this reads bytes, else NONE.
  lathe_dtype dtype_of_bytes(nb::handle object, int64_t bytes);

  bool flatten_ = false, reads_bytes_ = false;
  nb::object owner_;
  Py_buffer view_{};
  nb::ndarray<nb::ro> dlpack_;
  nb::ndarray<> dlpack_writable_;
};

// Makes NumPy's C API usable; once, before anything else here. Throws if NumPy cannot be imported.
void import_numpy();
// A new NumPy array, rows contiguous. bfloat16 needs ml_dtypes.
nb::object new_numpy(int ndim, const int64_t* shape, lathe_dtype dtype);

// Bytes of one element of a dtype that is not a block format.
int64_t element_bytes(lathe_dtype dtype);
// "float32", "bfloat16", "q4_k", ...
const char* dtype_name(lathe_dtype dtype);
// The reverse; LATHE_DTYPE_NONE if the name is unknown.
lathe_dtype dtype_of_name(const std::string& name);
// Elements and bytes of a block; {1, bytes of an element} if the dtype has no blocks.
struct Block {
  int64_t elements, bytes;
};
Block block_of(lathe_dtype dtype);

// Stores a matrix (the last two dimensions of `array`, and a batch before them) in `operand`. `prefer_columns`: a
// single column is COLUMN_MAJOR. Throws ValueError if no leading dimension expresses the strides.
void set_operand(lathe_operand& operand, const Array& array, const char* name, bool prefer_columns = false,
                 bool row_major_only = false);

[[noreturn]] void value_error(const std::string& message);

}  // namespace lathe_python
