"""Arrays in GPU memory, on the emulated CUDA driver, whose memory crashes a process that reads it on the host."""

import contextlib
import os
import sys
import types

import gpu_arrays
import lathe
import numpy
import pytest
from gpu_arrays import Array, ExchangeTensor, Tensor

if "LATHE_TEST_CUDA_EMULATOR" not in os.environ:
    pytest.skip("no emulated CUDA driver: LATHE_TEST_CUDA_EMULATOR is not set", allow_module_level=True)

RNG = numpy.random.default_rng(8)
DRIVER = Array.driver = gpu_arrays.Driver()
STREAM, OTHER_STREAM = DRIVER.stream(), DRIVER.stream()


@pytest.fixture(autouse=True)
def torch(monkeypatch):
    """A stand-in for the module torch. Its current stream is STREAM."""
    ExchangeTensor.stream = STREAM
    current = types.SimpleNamespace(cuda_stream=STREAM)
    module = types.ModuleType("torch")
    module.Tensor, module.cuda = Tensor, types.SimpleNamespace(current_stream=lambda index: current)
    module.int64, module.float32 = "int64", "float32"
    monkeypatch.setitem(sys.modules, "torch", module)
    yield module
    assert not gpu_arrays.exported, "an export was not released"


def random(shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def product(a, b):
    return a.astype(numpy.float64) @ b.astype(numpy.float64)


@pytest.mark.parametrize("kind", [Tensor, ExchangeTensor])
@pytest.mark.parametrize("dtype, error", [("float32", 1e-5), ("float16", 2e-3)])
def test_multiplies_in_a_new_tensor(kind, dtype, error):
    a, weight, bias = random((5, 40), dtype), random((24, 40), dtype), random(24, dtype)
    result = lathe.matmul(kind(a), kind(weight).T, bias=kind(bias), activation="relu")
    assert type(result) is kind and result.dtype == dtype
    DRIVER.wait(STREAM)
    expected = numpy.maximum(product(a, weight.T) + bias, 0)
    numpy.testing.assert_allclose(result.numpy(), expected, rtol=error, atol=error * 10)


@pytest.mark.parametrize("kind", [Tensor, ExchangeTensor])
def test_work_goes_to_the_current_stream(kind):
    a, b = random((3, 16)), random((16, 8))
    tensors = kind(a), kind(b), kind(numpy.zeros((3, 8), numpy.float32))
    lathe.matmul(tensors[0], tensors[1], out=tensors[2])  # a capture needs a loaded kernel
    waits = DRIVER.calls("cuStreamSynchronize")
    lathe.matmul(tensors[0], tensors[1], out=tensors[2])
    assert DRIVER.calls("cuStreamSynchronize") == waits
    DRIVER.wait(STREAM)
    DRIVER.write(tensors[2].address, numpy.zeros((3, 8), numpy.float32))
    assert DRIVER.kernels_captured(STREAM, lambda: lathe.matmul(tensors[0], tensors[1], out=tensors[2])) == 1
    numpy.testing.assert_allclose(tensors[2].numpy(), product(a, b), rtol=1e-5, atol=1e-5)
    if kind is Tensor:
        assert tensors[0].streams == tensors[1].streams == tensors[2].streams == [STREAM] * 3


class CupyArray(Array):
    """A stand-in for cupy.ndarray, whose library makes arrays on the current device and has a current stream."""

    entered = []

    @property
    def device(self):
        return contextlib.nullcontext(self.entered.append(self.place))

    @classmethod
    def empty(cls, shape, dtype):
        return cls(numpy.empty(shape, dtype))

    def reshape(self, shape):
        return CupyArray(numpy.empty(self.shape, self.dtype).reshape(shape), self.address)


def test_cupy_makes_results_and_has_a_current_stream(monkeypatch):
    module = types.ModuleType("cupy")
    module.ndarray, module.empty = CupyArray, CupyArray.empty
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=OTHER_STREAM))
    monkeypatch.setitem(sys.modules, "cupy", module)
    a, b = random((3, 16)), random((16, 8))
    x, y = CupyArray(a), CupyArray(b)
    result, index = lathe.matmul(x, y), lathe.matmul_argmax(x, y)
    DRIVER.wait(OTHER_STREAM)
    assert type(result) is type(index) is CupyArray and set(CupyArray.entered) == {CupyArray.place}
    assert x.streams == y.streams == [OTHER_STREAM] * 2
    numpy.testing.assert_allclose(result.numpy(), product(a, b), rtol=1e-5, atol=1e-5)
    assert index.numpy().tolist() == product(a, b).argmax(axis=1).tolist()
    assert DRIVER.kernels_captured(OTHER_STREAM, lambda: lathe.matmul(x, y, out=result)) == 1


def test_the_default_stream_is_1_in_dlpack(torch):
    torch.cuda.current_stream = lambda index: types.SimpleNamespace(cuda_stream=0)
    a = Tensor(random((2, 3)))
    lathe.matmul(a, Tensor(random((3, 4))))
    assert a.streams == [1]


def test_a_library_without_streams_gets_the_result_at_return():
    a, b, out = Array(random((3, 16))), Array(random((16, 8))), Array(numpy.zeros((3, 8), numpy.float32))
    waits = DRIVER.calls("cuStreamSynchronize")
    assert lathe.matmul(a, b, out=out) is out
    assert DRIVER.calls("cuStreamSynchronize") == waits + 1
    numpy.testing.assert_allclose(out.numpy(), product(a.numpy(), b.numpy()), rtol=1e-5, atol=1e-5)
    assert a.streams == b.streams == out.streams == [1]
    with pytest.raises(ValueError, match="cannot make a result for a Array on a GPU. Pass out="):
        lathe.matmul(a, b)


def test_an_array_of_another_library_is_ordered_by_dlpack():
    a, b = ExchangeTensor(random((3, 16))), Tensor(random((16, 8)))
    lathe.matmul(a, b)
    assert b.streams == [STREAM]  # so its library makes STREAM wait
    ExchangeTensor.stream = OTHER_STREAM
    with pytest.raises(AssertionError, match="C functions"):  # its view orders nothing, so __dlpack__ is called
        lathe.matmul(b.T, ExchangeTensor(random((16, 8))))


@pytest.mark.parametrize("kind", [Tensor, ExchangeTensor])
def test_argmax_and_matmul_argmax(kind):
    x, weight = random((6, 50)), random((70, 50))
    indices, maxima = lathe.argmax(kind(x), values=True)
    fused = lathe.matmul_argmax(kind(x), kind(weight).T)
    single = lathe.argmax(kind(x[0]))
    DRIVER.wait(STREAM)
    assert type(indices) is kind and indices.dtype == numpy.int64
    assert indices.numpy().tolist() == x.argmax(axis=1).tolist()
    assert maxima.numpy().tolist() == x.max(axis=1).tolist()
    assert fused.numpy().tolist() == product(x, weight.T).argmax(axis=1).tolist()
    assert single.shape == () and single.numpy() == x[0].argmax()


def test_vectors_batches_and_beta():
    a, b, old = random((2, 3, 16)), random((2, 16, 8)), random((2, 3, 8))
    out = Tensor(old)
    lathe.matmul(Tensor(a), Tensor(b), out=out, alpha=0.5, beta=2)
    dot = lathe.matmul(Tensor(a[0, 0]), Tensor(b[0, :, 0]))
    DRIVER.wait(STREAM)
    numpy.testing.assert_allclose(out.numpy(), 0.5 * product(a, b) + 2 * old, rtol=1e-5, atol=1e-5)
    assert dot.shape == ()
    numpy.testing.assert_allclose(dot.numpy(), product(a[0, 0], b[0, :, 0]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [Tensor, ExchangeTensor])
def test_warmup_and_explain_use_the_device_of_the_weight(kind):
    weight = kind(random((32, 48), "float16"))
    report = lathe.warmup({"weight": weight.T}, m=4)
    assert report["classes"] > 0
    lathe.set_miss_policy("error")
    try:
        lathe.matmul(kind(random((3, 48), "float16")), weight.T)
    finally:
        lathe.set_miss_policy("block")
    plan = lathe.explain(kind(random((3, 48), "float16")), weight.T).plan
    assert plan["device"] == "cuda:0"
    assert "cuda:0" in str(lathe.Explanation(plan)) and "<td>cuda:0</td>" in lathe.Explanation(plan)._repr_html_()
    assert lathe.explain(numpy.empty((3, 48), numpy.float16), weight.T).plan["device"] == "cuda:0"
    assert set(weight.streams) <= {STREAM, -1}  # describing waits for nothing


def test_warmup_takes_a_device_for_a_manifest():
    manifest = lathe._core.Manifest()
    manifest.add_matmul("weight", 2, numpy.empty((1, 24), numpy.float32), numpy.empty((24, 56), numpy.float32))
    assert lathe.warmup(manifest.text(), device="cuda:0")["classes"] > 0
    lathe.set_miss_policy("error")
    try:
        lathe.matmul(Tensor(random((2, 24))), Tensor(random((24, 56))))
    finally:
        lathe.set_miss_policy("block")
    with pytest.raises(ValueError, match="device is 'gpu', but must be 'cpu', 'cuda:0'"):
        lathe.warmup(manifest.text(), device="gpu")


class OnSecondDevice(Tensor):
    place = (gpu_arrays.CUDA, 1)


class OnMetal(Tensor):
    place = (8, 0)


@pytest.mark.parametrize("a, b, message", [
    (Tensor, numpy.asarray, "a is on cuda:0, but b is in CPU memory. Move them to one device"),
    (numpy.asarray, Tensor, "a is in CPU memory, but b is on cuda:0. Move them"),
    (Tensor, OnSecondDevice, "a is on cuda:0, but b is on cuda:1. Move them"),
    (ExchangeTensor, numpy.asarray, "a is on cuda:0, but b is in CPU memory"),
    (OnMetal, OnMetal, "a is on a device of DLPack's type 8, but Lathe computes on the CPU, CUDA"),
    (Tensor, lambda b: lathe.pack(b), "a is on cuda:0, but b is in CPU memory"),
])
def test_refuses_arrays_on_different_devices(a, b, message):
    with pytest.raises(ValueError, match=message):
        lathe.matmul(a(random((3, 16))), b(random((16, 8))))


@pytest.mark.parametrize("argument, value", [("out", (3, 8)), ("bias", (8,)), ("residual", (3, 8))])
def test_refuses_other_arguments_on_another_device(argument, value):
    with pytest.raises(ValueError, match=f"a is on cuda:0, but {argument} is in CPU memory"):
        lathe.matmul(Tensor(random((3, 16))), Tensor(random((16, 8))), **{argument: random(value)})


def test_weights_on_different_devices_are_warmed_up_apart():
    with pytest.raises(ValueError, match="weight 'a' is on cuda:0, but 'b' is on cpu"):
        lathe.warmup({"a": Tensor(random((16, 8))), "b": random((16, 8))})


def test_a_missing_device_is_an_error_of_the_library():
    with pytest.raises(lathe.Error, match="cuda:1") as raised:
        lathe.matmul(OnSecondDevice(random((3, 16))), OnSecondDevice(random((16, 8))))
    assert raised.value.status is lathe.Status.NOT_AVAILABLE


class OnRocm(Array):
    place = (10, 63)


def test_rocm_is_hip_and_its_default_stream_is_0():
    a = OnRocm(random((3, 16)))
    with pytest.raises(lathe.Error, match="hip") as raised:
        lathe.matmul(a, OnRocm(random((16, 8))), out=OnRocm(random((3, 8))))
    assert raised.value.status is lathe.Status.NOT_AVAILABLE
    assert a.streams == [0]


def test_what_runs_on_the_cpu_only_says_so():
    with pytest.raises(lathe.Error, match="on the CPU") as raised:
        lathe.pack(Tensor(random((16, 8))))
    assert raised.value.status is lathe.Status.UNSUPPORTED
    with pytest.raises(ValueError, match="b is on cuda:0, but grouped products run on the CPU only"):
        lathe.grouped_matmul(Tensor(random((3, 4))), Tensor(random((2, 4, 5))), numpy.zeros(3, numpy.int32))
