#include "array.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lathe_python {
namespace {

struct DtypeRow {
  lathe_dtype dtype;
  const char* name;
  Block block;
};
const DtypeRow kDtypes[] = {
    {LATHE_F32, "float32", {1, 4}},     {LATHE_F16, "float16", {1, 2}},
    {LATHE_BF16, "bfloat16", {1, 2}},   {LATHE_I32, "int32", {1, 4}},
    {LATHE_I64, "int64", {1, 8}},       {LATHE_I8, "int8", {1, 1}},
    {LATHE_Q4_0, "q4_0", {32, 18}},     {LATHE_Q8_0, "q8_0", {32, 34}},
    {LATHE_Q4_1, "q4_1", {32, 20}},     {LATHE_Q5_0, "q5_0", {32, 22}},
    {LATHE_Q5_1, "q5_1", {32, 24}},     {LATHE_Q4_K, "q4_k", {256, 144}},
    {LATHE_Q5_K, "q5_k", {256, 176}},   {LATHE_Q6_K, "q6_k", {256, 210}},
    {LATHE_IQ4_NL, "iq4_nl", {32, 18}}, {LATHE_IQ4_XS, "iq4_xs", {256, 136}},
    {LATHE_MXFP4, "mxfp4", {32, 17}},
};

// The dtype of a buffer's format character, or NONE. "l" has the size of a C long.
lathe_dtype dtype_of_format(const char* format, Py_ssize_t item_bytes) {
  if (format == nullptr) return LATHE_DTYPE_NONE;
  if (*format == '<' || *format == '=' || *format == '@') ++format;
  if (format[0] == '\0' || format[1] != '\0') return LATHE_DTYPE_NONE;
  switch (*format) {
    case 'f': return LATHE_F32;
    case 'e': return LATHE_F16;
    case 'b': return LATHE_I8;
    case 'i':
    case 'l':
    case 'q': return item_bytes == 4 ? LATHE_I32 : item_bytes == 8 ? LATHE_I64 : LATHE_DTYPE_NONE;
    default: return LATHE_DTYPE_NONE;
  }
}

// bfloat16 is a type that ml_dtypes registers, so its number is found by name, once.
int bfloat16_number = -1;

bool is_bfloat16(const PyArray_Descr* descr) {
  if (descr->type_num < NPY_USERDEF) return false;
  if (descr->type_num == bfloat16_number) return true;
  if (bfloat16_number >= 0) return false;
  const std::string name =
      nb::cast<std::string>(nb::str(nb::handle(reinterpret_cast<const PyObject*>(descr))));
  if (name == "bfloat16") bfloat16_number = descr->type_num;
  return name == "bfloat16";
}

lathe_dtype dtype_of_numpy(const PyArray_Descr* descr) {
  if (!PyArray_ISNBO(descr->byteorder)) return LATHE_DTYPE_NONE;
  switch (descr->type_num) {
    case NPY_FLOAT: return LATHE_F32;
    case NPY_HALF: return LATHE_F16;
    case NPY_BYTE: return LATHE_I8;
    case NPY_INT: return LATHE_I32;
    case NPY_LONG: return sizeof(long) == 8 ? LATHE_I64 : LATHE_I32;
    case NPY_LONGLONG: return LATHE_I64;
    default: return is_bfloat16(descr) ? LATHE_BF16 : LATHE_DTYPE_NONE;
  }
}

lathe_dtype dtype_of_dlpack(nb::dlpack::dtype dtype) {
  const auto is = [&](nb::dlpack::dtype_code code, int bits) {
    return dtype.code == static_cast<uint8_t>(code) && dtype.bits == bits && dtype.lanes == 1;
  };
  if (is(nb::dlpack::dtype_code::Float, 32)) return LATHE_F32;
  if (is(nb::dlpack::dtype_code::Float, 16)) return LATHE_F16;
  if (is(nb::dlpack::dtype_code::Bfloat, 16)) return LATHE_BF16;
  if (is(nb::dlpack::dtype_code::Int, 8)) return LATHE_I8;
  if (is(nb::dlpack::dtype_code::Int, 32)) return LATHE_I32;
  if (is(nb::dlpack::dtype_code::Int, 64)) return LATHE_I64;
  return LATHE_DTYPE_NONE;
}

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

[[noreturn]] void wrong_dtype(const char* name, const std::string& found, bool wants_bytes) {
  if (wants_bytes)
    value_error(std::string(name) + " has dtype " + found +
                ", but with a scale Lathe reads elements of one byte, such as numpy.uint8");
  value_error(
      std::string(name) + " has dtype " + found +
      ", but Lathe reads float32, float16, bfloat16 and int8 in native byte order. Convert it, for example "
      "with .astype(numpy.float32)");
}

std::string tuple_of(const int64_t* values, int count) {
  std::string text = "(";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + (count == 1 ? ",)" : ")");
}

}  // namespace

void value_error(const std::string& message) { throw nb::value_error(message.c_str()); }

int64_t element_bytes(lathe_dtype dtype) {
  switch (dtype) {
    case LATHE_I8: return 1;
    case LATHE_F16:
    case LATHE_BF16: return 2;
    case LATHE_I64: return 8;
    default: return 4;
  }
}

Block block_of(lathe_dtype dtype) {
  for (const DtypeRow& row : kDtypes)
    if (row.dtype == dtype) return row.block;
  return {1, 1};
}

const char* dtype_name(lathe_dtype dtype) {
  for (const DtypeRow& row : kDtypes)
    if (row.dtype == dtype) return row.name;
  return "unknown";
}

lathe_dtype dtype_of_name(const std::string& name) {
  for (const DtypeRow& row : kDtypes)
    if (name == row.name) return row.dtype;
  return LATHE_DTYPE_NONE;
}

void import_numpy() {
  if (_import_array() < 0) throw nb::python_error();
}

nb::object new_numpy(int ndim, const int64_t* shape, lathe_dtype dtype) {
  // Held until the process ends, because the interpreter may be gone when static objects are destroyed.
  static PyArray_Descr* descriptors[LATHE_I8 + 1] = {};
  PyArray_Descr*& descr = descriptors[dtype];
  if (descr == nullptr) {
    nb::object made = nb::module_::import_("lathe._results").attr("dtype")(dtype_name(dtype));
    descr = reinterpret_cast<PyArray_Descr*>(made.release().ptr());
  }
  npy_intp sizes[3] = {};
  for (int i = 0; i < ndim; ++i) sizes[i] = shape[i];
  Py_INCREF(descr);  // the array takes this reference
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, descr, ndim, sizes, nullptr, nullptr, 0, nullptr);
  if (array == nullptr) throw nb::python_error();
  return nb::steal(array);
}

void Array::read(Target& target, nb::handle object, const char* name, bool writable, bool flatten) {
  flatten_ = flatten;
  if (PyArray_Check(object.ptr())) return read_numpy(target, object, name, writable);
  if (PyObject_CheckBuffer(object.ptr())) return read_buffer(target, object, name, writable);
  read_dlpack(target, object, name, writable);
}

void Array::read_bytes(Target& target, nb::handle object, const char* name) {
  reads_bytes_ = true;
  read(target, object, name);
}

lathe_dtype Array::dtype_of_bytes(nb::handle object, int64_t bytes) {
  if (!reads_bytes_ || bytes != 1) return LATHE_DTYPE_NONE;
  const std::string text = nb::hasattr(object, "dtype") ? text_of(object.attr("dtype")) : "uint8";
  byte_dtype = text.substr(text.rfind('.') + 1);  // "torch.float8_e4m3fn"
  return LATHE_I8;
}

// Faster than NumPy's buffer, which makes a format string; and NumPy has no buffers of bfloat16.
void Array::read_numpy(Target& target, nb::handle object, const char* name, bool writable) {
  auto* array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const PyArray_Descr* descr = PyArray_DESCR(array);
  dtype = reads_bytes_ ? dtype_of_bytes(object, PyArray_ITEMSIZE(array)) : dtype_of_numpy(descr);
  if (dtype == LATHE_DTYPE_NONE) wrong_dtype(name, text_of(object.attr("dtype")), reads_bytes_);
  if (writable && !PyArray_ISWRITEABLE(array)) value_error(std::string(name) + " is read-only");
  target.join(object, name, Place());
  owner_ = nb::borrow(object);
  data = PyArray_DATA(array);
  take_layout(name, PyArray_NDIM(array), PyArray_DIMS(array), PyArray_STRIDES(array), element_bytes(dtype));
}

void Array::read_buffer(Target& target, nb::handle object, const char* name, bool writable) {
  const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) {
    nb::python_error cause;
    // JAX has no buffers of bfloat16. It exports read-only arrays as if they could be written.
    if (!writable && nb::hasattr(object, "__dlpack__")) return read_dlpack(target, object, name, writable);
    value_error(std::string(name) + " cannot be read" + (writable ? " and written" : "") + ": " +
                text_of(cause.value()));
  }
  dtype =
      reads_bytes_ ? dtype_of_bytes(object, view_.itemsize) : dtype_of_format(view_.format, view_.itemsize);
  if (dtype == LATHE_DTYPE_NONE)
    wrong_dtype(name,
                nb::hasattr(object, "dtype") ? text_of(object.attr("dtype")) : std::string(view_.format),
                reads_bytes_);
  target.join(object, name, Place());
  data = view_.buf;
  take_layout(name, view_.ndim, view_.shape, view_.strides, view_.itemsize);
}

void Array::read_dlpack(Target& target, nb::handle object, const char* name, bool writable) {
  if (!nb::hasattr(object, "__dlpack__"))
    throw nb::type_error((std::string(name) + " is a " + text_of(object.type().attr("__name__")) +
                          ". Lathe takes arrays with the buffer protocol or DLPack, such as NumPy arrays")
                             .c_str());
  if (nb::hasattr(object, "requires_grad") && nb::cast<bool>(nb::bool_(object.attr("requires_grad"))))
    value_error(std::string(name) + " requires gradients, and Lathe computes none. Pass " + name +
                ".detach()");
  if (read_exchange(target, object, name)) return;
  const nb::object source = export_capsule(target, object, name);
  const auto take = [&](auto& array) {
    if (!nb::try_cast(source, array))
      value_error(std::string(name) + ": DLPack cannot export this object" +
                  (writable ? " for writing" : ""));
    nb::dlpack::dltensor tensor;
    tensor.data = const_cast<void*>(static_cast<const void*>(array.data()));
    tensor.ndim = static_cast<int32_t>(array.ndim());
    tensor.dtype = array.dtype();
    tensor.shape = const_cast<int64_t*>(array.shape_ptr());
    tensor.strides = const_cast<int64_t*>(array.stride_ptr());
    take_tensor(object, name, tensor);
  };
  if (writable)
    take(dlpack_writable_);
  else
    take(dlpack_);
}

// Of an array in CPU memory `object` itself, which nanobind asks without a stream.
nb::object Array::export_capsule(Target& target, nb::handle object, const char* name) {
  if (!nb::hasattr(object, "__dlpack_device__"))
    throw nb::type_error((std::string(name) + " has __dlpack__ without __dlpack_device__").c_str());
  const auto [type, index] = nb::cast<std::pair<int32_t, int32_t>>(object.attr("__dlpack_device__")());
  const Place place = place_of_dlpack(type, index, name);
  target.join(object, name, place);
  if (place.kind == Place::kCpu) return nb::borrow(object);
  const nb::object method = object.attr("__dlpack__"), stream = nb::int_(target.dlpack_stream());
  try {
    return method(nb::arg("stream") = stream, nb::arg("max_version") = nb::make_tuple(1, 0));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    return method(nb::arg("stream") = stream);  // older than DLPack 1.0
  }
}

bool Array::read_exchange(Target& target, nb::handle object, const char* name) {
  const DlpackExchange* exchange = exchange_of(Py_TYPE(object.ptr()));
  if (exchange == nullptr) return false;
  nb::dlpack::dltensor tensor;
  if (exchange->view(object.ptr(), &tensor) != 0) {
    PyErr_Clear();  // PyTorch's text has a stack trace
    value_error(std::string(name) + ": DLPack cannot export this object");
  }
  target.join(object, name, place_of_dlpack(tensor.device.device_type, tensor.device.device_id, name));
  if (!target.has_stream_of(*exchange)) return false;
  tensor.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  owner_ = nb::borrow(object);
  take_tensor(object, name, tensor);
  return true;
}

void Array::take_tensor(nb::handle object, const char* name, const nb::dlpack::dltensor& tensor) {
  // DLPack does not say that PyTorch negates the elements of such a view when it reads them.
  if (nb::hasattr(object, "is_neg") && nb::cast<bool>(object.attr("is_neg")()))
    value_error(std::string(name) + " is a negated view. Pass " + name + ".resolve_neg()");
  dtype = reads_bytes_ ? dtype_of_bytes(object, tensor.dtype.bits * tensor.dtype.lanes / 8)
                       : dtype_of_dlpack(tensor.dtype);
  if (dtype == LATHE_DTYPE_NONE)
    wrong_dtype(name, nb::hasattr(object, "dtype") ? text_of(object.attr("dtype")) : std::string("unknown"),
                reads_bytes_);
  if (tensor.ndim < 1 || (tensor.ndim > 3 && !flatten_))
    value_error(std::string(name) + " has " + std::to_string(tensor.ndim) +
                " dimensions, but Lathe takes 1 to 3");
  data = tensor.data;
  if (flatten_) return take_flat(name, tensor.ndim, tensor.shape, tensor.strides);
  ndim = tensor.ndim;
  for (int i = 0; i < ndim; ++i) {
    shape[i] = tensor.shape[i];
    stride[i] = tensor.strides[i];
  }
  pack_if_empty();
}

void Array::take_flat(const char* name, int dimensions, const int64_t* sizes, const int64_t* strides) {
  ndim = 2;
  shape[1] = sizes[dimensions - 1];
  stride[1] = strides[dimensions - 1];
  shape[0] = 1;
  stride[0] = shape[1];
  bool first = true;
  for (int i = dimensions - 2; i >= 0; --i) {
    if (sizes[i] != 1) {
      if (first)
        stride[0] = strides[i];
      else if (strides[i] != stride[0] * shape[0])
        value_error(std::string(name) + " has rows at uneven distances. Pass " + name + ".contiguous()");
      first = false;
    }
    shape[0] *= sizes[i];
  }
}

void Array::take_layout(const char* name, int dimensions, const Py_ssize_t* sizes,
                        const Py_ssize_t* byte_strides, int64_t bytes) {
  if (dimensions < 1 || dimensions > 3)
    value_error(std::string(name) + " has " + std::to_string(dimensions) +
                " dimensions, but Lathe takes 1 to 3: reshape it");
  ndim = dimensions;
  if (flatten_) value_error(std::string(name) + " must be a tensor with DLPack");
  for (int i = 0; i < dimensions; ++i) {
    shape[i] = sizes[i];
    if (sizes[i] > 1 && byte_strides[i] % bytes != 0)
      value_error(std::string(name) +
                  " has a stride that is not a whole number of elements. Pass "
                  "numpy.ascontiguousarray(" +
                  name + ")");
    stride[i] = byte_strides[i] / bytes;
  }
  pack_if_empty();
}

void Array::pack_if_empty() {
  if (std::find(shape, shape + ndim, 0) == shape + ndim) return;
  int64_t apart = 1;
  for (int i = ndim - 1; i >= 0; --i) {
    stride[i] = apart;
    apart *= shape[i];
  }
}

void Array::insert_dimension(int at) {
  for (int i = ndim; i > at; --i) {
    shape[i] = shape[i - 1];
    stride[i] = stride[i - 1];
  }
  shape[at] = stride[at] = 1;
  ++ndim;
}

std::string Array::describe() const {
  return std::string(dtype_name(dtype)) + " of shape " + tuple_of(shape, ndim) + " and strides " +
         tuple_of(stride, ndim) + " (in elements)";
}

void set_operand(lathe_operand& operand, const Array& array, const char* name, bool prefer_columns,
                 bool row_major_only) {
  const int row = array.ndim - 2, column = array.ndim - 1;
  const int64_t rows = array.shape[row], columns = array.shape[column];
  const int64_t down = array.stride[row], across = array.stride[column];
  const bool empty = rows == 0 || columns == 0 || (row > 0 && array.shape[0] == 0);
  const bool by_rows = (columns <= 1 || across == 1) && (rows <= 1 || down >= columns);
  const bool by_columns = !row_major_only && (rows <= 1 || down == 1) && (columns <= 1 || across >= rows);
  const bool batch_fits = array.ndim < 3 || array.shape[0] <= 1 || array.stride[0] >= 0;
  if (!empty && (!(by_rows || by_columns) || !batch_fits))
    value_error(std::string(name) + " is " + array.describe() + ", but Lathe reads matrices whose rows" +
                (row_major_only ? "" : " or columns") +
                " are contiguous, without negative strides. Pass numpy.ascontiguousarray(" + name + ")");
  operand.data = array.data;
  operand.dtype = array.dtype;
  const bool columns_first = by_columns && (!by_rows || (prefer_columns && columns == 1 && rows > 1));
  operand.layout = !empty && columns_first ? LATHE_COLUMN_MAJOR : LATHE_ROW_MAJOR;
  if (empty)
    operand.leading_dimension = 0;
  else if (columns_first)
    operand.leading_dimension = columns > 1 ? across : 0;
  else
    operand.leading_dimension = rows > 1 ? down : 0;
  operand.batch_stride = array.ndim == 3 && array.shape[0] > 1 && !empty ? array.stride[0] : 0;
}

}  // namespace lathe_python
