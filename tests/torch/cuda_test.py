"""lathe.torch on CUDA devices: PyTorch's dispatcher with tensors that say that they are on cuda:0, over the memory of
the emulated CUDA driver. No kernel of PyTorch runs: the stand-in does the operations that lathe.torch calls."""

import os
import sys

import lathe.torch
import numpy
import pytest
import torch
from lathe.torch import _linear, _ops
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
import gpu_arrays  # noqa: E402

if "LATHE_TEST_CUDA_EMULATOR" not in os.environ:
    pytest.skip("no emulated CUDA driver: LATHE_TEST_CUDA_EMULATOR is not set", allow_module_level=True)

DRIVER = gpu_arrays.Driver()
STREAM = DRIVER.stream()
CODES = {torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.int64: (0, 64)}
VIEWS = {"alias", "detach", "flatten", "movedim", "numpy_T", "permute", "reshape", "resolve_neg", "t", "transpose",
         "unsqueeze", "view"}


class OnGpu(torch.Tensor):
    """A tensor on cuda:0. `layout` has its shape and strides, `address` is where its storage begins."""

    @staticmethod
    def __new__(cls, layout, address):
        self = torch.Tensor._make_wrapper_subclass(cls, layout.shape, layout.stride(), layout.storage_offset(),
                                                   dtype=layout.dtype, device="cuda:0")
        self.layout_, self.address = layout, address
        return self

    @classmethod
    def copy_of(cls, values):
        values = values.contiguous()
        address = DRIVER.allocate(max(values.nbytes, 1))
        DRIVER.write(address, values.view(-1).view(torch.uint8).numpy())
        return cls(torch.empty_like(values, device="meta"), address)

    def host(self):
        """A copy of the elements in CPU memory."""
        DRIVER.wait(STREAM)
        layout = self.layout_
        storage = numpy.empty(layout.untyped_storage().nbytes(), numpy.uint8)
        DRIVER.read(self.address, storage)
        return torch.from_numpy(storage).view(layout.dtype).as_strided(layout.shape, layout.stride(),
                                                                       layout.storage_offset()).clone()

    def copy_(self, values):  # PyTorch's own would ask the CUDA runtime for the device before it dispatches
        assert self.is_contiguous() and type(values) is OnGpu
        values = values.host().to(self.dtype).expand(self.shape).contiguous()
        DRIVER.write(self.address, values.view(-1).view(torch.uint8).numpy())
        return self

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = function.__name__.partition(".")[0]
        if function.namespace == "lathe":
            return getattr(_ops, name)._init_fn(*arguments, **kwargs)
        first = arguments[0]
        if name == "new_empty":
            kwargs.pop("device", None), kwargs.pop("layout", None), kwargs.pop("pin_memory", None)
            layout = first.layout_.new_empty(arguments[1], **kwargs)
            return cls(layout, DRIVER.allocate(max(layout.nbytes, 1)))
        if name in VIEWS:
            return cls(function(first.layout_, *arguments[1:], **kwargs), first.address)
        if name == "clone":
            return cls.copy_of(first.host())
        raise NotImplementedError(f"the stand-in has no {function}")


gpu_arrays.offer_exchange(
    OnGpu, lambda tensor: gpu_arrays.dltensor(tensor.address, (gpu_arrays.CUDA, 0), CODES[tensor.dtype], tensor.shape,
                                              tensor.stride(), tensor.storage_offset() * tensor.element_size()),
    lambda: STREAM)


def random(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def assert_close(result, expected):
    assert type(result) is OnGpu and result.shape == expected.shape
    error = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}[result.dtype]
    torch.testing.assert_close(result.host().double(), expected, rtol=error, atol=error)


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_operators_compute_on_the_device(dtype):
    x, weight, bias = random(3, 40, dtype=dtype), random(24, 40, dtype=dtype), random(24, dtype=dtype)
    x_, weight_, bias_ = map(OnGpu.copy_of, (x, weight, bias))
    expected = x.double() @ weight.double().T
    assert_close(torch.ops.lathe.linear(x_, weight_, bias_), expected + bias.double())
    assert_close(torch.ops.lathe.matmul(x_, weight_.t()), expected)
    assert_close(torch.ops.lathe.addmm(bias_, x_, weight_.t()), expected + bias.double())
    old = OnGpu.copy_of(expected.to(dtype))
    assert_close(torch.ops.lathe.addmm(old, x_, weight_.t(), 2.0, 0.5), 2 * old.host().double() + 0.5 * expected)
    indices = torch.ops.lathe.argmax(x_, -1)
    assert type(indices) is OnGpu and torch.equal(indices.host(), x.argmax(-1))


def test_operators_use_the_current_stream():
    x, weight = OnGpu.copy_of(random(3, 16)), OnGpu.copy_of(random(8, 16))
    torch.ops.lathe.linear(x, weight)  # a capture needs a loaded kernel
    DRIVER.wait(STREAM)
    assert DRIVER.kernels_captured(STREAM, lambda: torch.ops.lathe.linear(x, weight)) == 1


def test_two_devices_are_refused():
    x, weight = random(3, 16), OnGpu.copy_of(random(8, 16))
    with pytest.raises(RuntimeError, match="lathe::linear: the arguments are on cpu and cuda:0. Move them"):
        torch.ops.lathe.linear(x, weight)


class OnOneGpu(nn.Module):
    """Two layers whose parameters are on cuda:0."""

    def __init__(self, dtype):
        super().__init__()
        self.up, self.down = nn.Linear(32, 48, dtype=dtype), nn.Linear(48, 16, bias=False, dtype=dtype)
        self.reference = [parameter.detach().clone() for parameter in self.parameters()]
        for layer in (self.up, self.down):
            for name, parameter in list(layer.named_parameters()):
                setattr(layer, name, nn.Parameter(OnGpu.copy_of(parameter.detach()), requires_grad=False))

    def forward(self, x):
        return self.down(self.up(x))


@pytest.mark.parametrize("through_dispatcher", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_optimize_replaces_the_layers_of_a_model_on_a_gpu(monkeypatch, through_dispatcher, dtype):
    model = OnOneGpu(dtype)
    lathe.torch.optimize(model, m_max=4, progress=False)
    assert model.lathe_report.replaced == ["up", "down"] and model.lathe_report.after == model.lathe_report.before
    assert model.lathe_report.warmup["classes"] > 0
    if not through_dispatcher:
        monkeypatch.setattr(_linear, "_is_plain", lambda x: True)
    x = random(3, 32, dtype=dtype)
    up, bias, down = (parameter.double() for parameter in model.reference)
    hidden = (x.double() @ up.T + bias).to(dtype).double()
    lathe.set_miss_policy("error")  # the warm-up prepared everything
    try:
        assert_close(model(OnGpu.copy_of(x)), hidden @ down.T)
    finally:
        lathe.set_miss_policy("block")
    assert set(model.state_dict()) == {"up.weight", "up.bias", "down.weight"}  # nothing was packed


def test_optimize_skips_quantised_weights_on_a_gpu():
    model = OnOneGpu(torch.float32)
    lathe.torch.optimize(model, "int8", progress=False)
    assert model.lathe_report.replaced == []
    assert model.lathe_report.skipped["up"] == 'its weight is on cuda:0, and weights="int8" is for the CPU'


@pytest.mark.filterwarnings("ignore:CUDA initialization")
def test_fake_kernels_keep_the_device():
    with FakeTensorMode():
        x, weight = torch.empty(2, 3, 16, device="cuda"), torch.empty(8, 16, device="cuda")
        results = {"linear": torch.ops.lathe.linear(x, weight), "matmul": torch.ops.lathe.matmul(x[0], weight.t()),
                   "argmax": torch.ops.lathe.argmax(x, -1)}
    assert {name: tuple(result.shape) for name, result in results.items()} == {
        "linear": (2, 3, 8), "matmul": (3, 8), "argmax": (2, 3)}
    assert {result.device.type for result in results.values()} == {"cuda"}
