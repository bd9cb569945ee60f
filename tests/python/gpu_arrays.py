"""Stand-ins for arrays of GPU libraries: memory of the CUDA driver (here the emulated one), exported through DLPack."""

import ctypes

import numpy

CUDA = 2  # DLPack's device type


class Driver:
    """As much of the CUDA driver as the tests need."""

    def __init__(self):
        self.functions = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self("cuCtxSetCurrent", self.context)

    def __call__(self, function, *arguments):
        status = getattr(self.functions, function)(*arguments)
        assert status == 0, f"{function}: {status}"

    def allocate(self, size):
        address = ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def write(self, address, array):
        self("cuMemcpyHtoD_v2", ctypes.c_uint64(address), array.ctypes.data_as(ctypes.c_void_p),
             ctypes.c_size_t(array.nbytes))

    def read(self, address, array):
        self("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address),
             ctypes.c_size_t(array.nbytes))

    def stream(self):
        handle = ctypes.c_void_p()
        self("cuStreamCreate", ctypes.byref(handle), 1)  # does not synchronize with the default stream
        return handle.value

    def wait(self, stream):
        self("cuStreamSynchronize", ctypes.c_void_p(stream))

    def calls(self, function):
        """How often the emulated driver's function was called."""
        count = self.functions.emu_call_count
        count.restype = ctypes.c_uint64
        return count(function.encode())

    def kernels_captured(self, stream, call):
        """Captures the stream during `call`, and returns how many nodes its graph got. Then runs the graph."""
        graph, runnable, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        handle = ctypes.c_void_p(stream)
        self("cuStreamBeginCapture_v2", handle, 2)
        call()
        self("cuStreamEndCapture", handle, ctypes.byref(graph))
        self("cuGraphGetNodes", graph, None, ctypes.byref(count))
        self("cuGraphInstantiateWithFlags", ctypes.byref(runnable), graph, ctypes.c_ulonglong(0))
        self("cuGraphLaunch", runnable, handle)
        self.wait(stream)
        return count.value


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):  # DLManagedTensor
    _fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class _Exchange(ctypes.Structure):  # DLPackExchangeAPI
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("older", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("export", ctypes.c_void_p), ("import_", ctypes.c_void_p),
                ("view", ctypes.c_void_p), ("current_stream", ctypes.c_void_p)]


exported = {}  # by address: what a capsule points to, until its deleter runs


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(managed):
    del exported[managed]


def _capsule(pointer, name):
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return make(pointer, name, None)


def dltensor(address, device, code_and_bits, shape, strides, byte_offset=0):
    """A DLTensor, and what it points to."""
    sizes = ctypes.c_int64 * len(shape)
    owned = sizes(*shape), sizes(*strides)
    return _Tensor(address, *device, len(shape), *code_and_bits, 1, *owned, byte_offset), owned


class Array:
    """An array in GPU memory. Its library has no current stream, and cannot make arrays for Lathe."""

    driver = None
    place = (CUDA, 0)  # the device, as DLPack says it

    def __init__(self, values, address=None, strides=None):
        self.shape, self.dtype = values.shape, values.dtype
        self.strides = strides or tuple(stride // values.itemsize for stride in values.strides)
        self.streams = []  # what __dlpack__ was called with
        if address is None:
            values = numpy.ascontiguousarray(values)
            self.strides = tuple(stride // values.itemsize for stride in values.strides)
            address = self.driver.allocate(max(values.nbytes, 1))
            self.driver.write(address, values)
        self.address = address

    @property
    def T(self):
        view = type(self)(numpy.empty(self.shape, self.dtype).T, self.address, self.strides[::-1])
        view.streams = self.streams
        return view

    def numpy(self):
        values = numpy.empty(self.shape, self.dtype)
        self.driver.read(self.address, values)
        return values

    def tensor(self):
        """A DLTensor of this array, and what it points to."""
        code = 0 if self.dtype.kind == "i" else 2
        return dltensor(self.address, self.place, (code, self.dtype.itemsize * 8), self.shape, self.strides)

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, *, stream=None):  # older than DLPack 1.0
        self.streams.append(stream)
        tensor, owned = self.tensor()
        managed = _Managed(tensor, None, ctypes.cast(_delete, ctypes.c_void_p))
        exported[ctypes.addressof(managed)] = managed, owned
        return _capsule(ctypes.addressof(managed), b"dltensor")


class Tensor(Array):
    """A stand-in for torch.Tensor on cuda:0, which makes results and has a current stream."""

    def new_empty(self, shape, dtype=None):
        return type(self)(numpy.empty(shape, dtype or self.dtype))

    def reshape(self, shape):
        return type(self)(numpy.empty(self.shape, self.dtype).reshape(shape), self.address)


class ExchangeTensor(Tensor):
    """The same with DLPack's C functions, as in PyTorch 2.10 and later."""

    stream = 0  # the current one

    def __dlpack__(self, **arguments):
        raise AssertionError("the C functions were not called")


_kept = []  # what DLPack's C functions point to


def offer_exchange(kind, tensor_of, current_stream):
    """Gives the class `kind` DLPack's C functions.

    tensor_of(array)    a DLTensor on CUDA device 0, and what it points to
    current_stream()    a handle
    """
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
    def view(array, out):
        out[0], owned = tensor_of(array)
        _kept.append(owned)
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    def stream(device_type, device_id, out):
        assert (device_type, device_id) == (CUDA, 0)
        out[0] = current_stream()
        return 0

    exchange = _Exchange(1, 3, None, None, None, None, ctypes.cast(view, ctypes.c_void_p),
                         ctypes.cast(stream, ctypes.c_void_p))
    name = b"dlpack_exchange_api"
    _kept.extend((view, stream, exchange, name))
    kind.__dlpack_c_exchange_api__ = _capsule(ctypes.addressof(exchange), name)


offer_exchange(ExchangeTensor, ExchangeTensor.tensor, lambda: ExchangeTensor.stream)
