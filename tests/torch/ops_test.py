"""torch.ops.lathe against PyTorch in float64: PyTorch's own samples, opcheck, and bad input."""

import lathe
import lathe.torch
import pytest
import torch
from torch import library
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
OPS = {"mm": lathe.torch.matmul, "bmm": lathe.torch.matmul, "addmm": lathe.torch.addmm,
       "baddbmm": lathe.torch.baddbmm, "nn.functional.linear": lathe.torch.linear, "argmax": lathe.torch.argmax}
INFOS = {info.name: info for info in op_db if info.name in OPS and info.variant_test_name == ""}


def random(*shape, dtype=torch.float32):
    return torch.randn(shape).to(dtype)


def wide(value, function=lambda x: x):
    return function(value.double()) if isinstance(value, torch.Tensor) else value


def magnitudes(value):
    if isinstance(value, torch.Tensor):
        return value.double().abs()
    return abs(value) if isinstance(value, (int, float)) else value


def depth(name, arguments):
    return arguments[0 if name in ("mm", "bmm", "nn.functional.linear") else 1].shape[-1]


def test_pytorch_has_samples_of_every_op():
    assert set(INFOS) == set(OPS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [name for name in OPS if name != "argmax"])
def test_opinfo_samples(name, dtype):
    info, count = INFOS[name], 0
    for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
        arguments = (sample.input, *sample.args)
        result = OPS[name](*arguments, **sample.kwargs)
        expected = info.op(*map(wide, arguments), **{k: wide(v) for k, v in sample.kwargs.items()})
        scale = info.op(*map(magnitudes, arguments), **{k: magnitudes(v) for k, v in sample.kwargs.items()})
        # K roundings of the sum in float32, then one of the result.
        bound = (depth(name, arguments) + 4) * 2.0**-23 * (scale + 1) + torch.finfo(dtype).eps * expected.abs()
        assert (result.dtype, result.shape) == (dtype, expected.shape)
        assert ((result.double() - expected).abs() <= bound).all(), sample
        count += 1
    assert count >= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo_samples_of_argmax(dtype):
    count = 0
    for sample in INFOS["argmax"].sample_inputs("cpu", dtype, requires_grad=False):
        result = lathe.torch.argmax(sample.input, *sample.args, **sample.kwargs)
        expected = torch.argmax(sample.input.double(), *sample.args, **sample.kwargs)
        assert result.dtype == torch.int64 and torch.equal(result, expected), sample
        count += 1
    assert count >= 5


def test_argmax_takes_the_first_nan_and_the_lowest_index():
    x = torch.tensor([[1, 3, 3], [1, torch.nan, torch.nan], [-torch.inf] * 3])
    assert lathe.torch.argmax(x, 1).tolist() == [1, 1, 0]
    assert lathe.torch.argmax(torch.empty(0, 3), 1).shape == (0,)
    with pytest.raises(IndexError, match="size 0"):
        lathe.torch.argmax(torch.empty(3, 0), 1)


def packed_arguments(x, weight, bias):
    packed = lathe.pack(weight.T)
    return (x, torch.from_numpy(packed.data), bias, packed.N, packed.K, packed.layout, packed.dtype, packed.math)


def samples():
    x, weight, bias = random(2, 3, 8), random(5, 8), random(5)
    yield lathe.torch.linear, (x, weight, bias)
    yield lathe.torch.linear, (x.bfloat16(), weight.bfloat16())
    yield lathe.torch.linear, (random(8, 3).T, random(8, 5).T)
    yield lathe.torch.packed_linear, packed_arguments(x, weight, bias)
    yield lathe.torch.packed_linear, packed_arguments(x, weight, None)
    yield lathe.torch.matmul, (random(3, 4), random(4, 5))
    yield lathe.torch.matmul, (random(2, 3, 4), random(2, 4, 5))
    yield lathe.torch.addmm, (random(5), random(3, 4), random(4, 5))
    yield lathe.torch.addmm, (random(3, 1), random(3, 4), random(4, 5), 0.5, 2.0)
    yield lathe.torch.baddbmm, (random(2, 3, 5), random(2, 3, 4), random(2, 4, 5))
    yield lathe.torch.argmax, (random(3, 4), 1)
    yield lathe.torch.argmax, (random(3, 4),)


@pytest.mark.parametrize("op, arguments", list(samples()))
def test_opcheck(op, arguments):
    library.opcheck(op, arguments)


@pytest.mark.parametrize("view", [lambda x: x[:, ::2], lambda x: x[::2, :10], lambda x: x.T.contiguous().T[:, :10],
                                  lambda x: x[:1].expand(12, 20)[:, :10], lambda x: x.flip(1)[:, :10],
                                  lambda x: torch.complex(x, -x).conj().imag[:, :10]])
def test_views_are_read_or_copied(view):
    x, weight = view(random(12, 20)), random(7, 10)
    expected = x.double() @ weight.double().T
    torch.testing.assert_close(lathe.torch.linear(x, weight).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lathe.torch.matmul(x, weight.T).double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lathe.torch.matmul(weight, x.T).double(), expected.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(lathe.torch.addmm(expected.float(), x, weight.T).double(), 2 * expected, rtol=1e-5,
                               atol=1e-5)
    assert torch.equal(lathe.torch.argmax(x, 1), x.argmax(1))


@pytest.mark.parametrize("m, n, k", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_size_zero(m, n, k):
    x, weight, bias = random(m, k), random(n, k), random(n)
    assert torch.equal(lathe.torch.linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias))
    assert torch.equal(lathe.torch.matmul(x, weight.T), x @ weight.T)
    old = random(m, n)
    assert torch.equal(lathe.torch.addmm(old, x, weight.T), torch.addmm(old, x, weight.T))


@pytest.mark.parametrize("op, arguments", [(op, arguments) for op, arguments in samples()
                                           if op is not lathe.torch.argmax])
def test_autograd_is_refused(op, arguments):
    wanting = (arguments[0].clone().requires_grad_(), *arguments[1:])
    with pytest.raises(RuntimeError, match=r"requires gradients.*inference_mode\(\) or torch.no_grad\(\)"):
        op(*wanting)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(op(*wanting), op(*arguments))


def test_refuses_mixed_devices_and_dtypes():
    x, weight = random(2, 4), random(3, 4)
    with pytest.raises(RuntimeError, match="on cpu and meta. Move them to one device"):
        lathe.torch.linear(x, weight.to("meta"))
    with pytest.raises(RuntimeError, match="on (cpu|meta) and (cpu|meta)"):
        lathe.torch.matmul(x.to("meta"), weight.T)
    with pytest.raises(RuntimeError, match="float32 and torch.bfloat16. Convert"):
        lathe.torch.linear(x, weight.bfloat16())
    with pytest.raises(RuntimeError, match="torch.float64, but Lathe takes"):
        lathe.torch.matmul(x.double(), weight.T.double())
    with pytest.raises(RuntimeError, match=r"last dimension must be K = 4"):
        lathe.torch.linear(random(2, 5), weight)
    with pytest.raises(RuntimeError, match=r"\(M, K\) and \(K, N\)"):
        lathe.torch.matmul(x, weight)
    with pytest.raises(RuntimeError, match="cannot be expanded"):
        lathe.torch.addmm(random(7), x, weight.T)
    with pytest.raises(ValueError, match="bytes in layout"):
        lathe.torch.packed_linear(x, torch.zeros(5, dtype=torch.int8), None, 3, 4, 1, "float32", "strict")


def test_public_functions_read_tensors_by_their_c_functions():
    x, weight = random(3, 8), random(5, 8)
    result = lathe.matmul(x, weight.T)
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, x @ weight.T)
    torch.testing.assert_close(lathe.matmul(x[1:, ::2].contiguous(), weight[:, :4].T), x[1:, ::2] @ weight[:, :4].T)
    with pytest.raises(ValueError, match=r"a requires gradients"):
        lathe.matmul(x.clone().requires_grad_(), weight.T)
    with pytest.raises(ValueError, match=r"resolve_neg"):
        lathe.matmul(torch.complex(x, x).conj().imag, weight.T)
    with pytest.raises(ValueError, match="a: DLPack cannot export"):
        lathe.matmul(x.to("meta"), weight.T)
    parameter = torch.nn.Parameter(weight, requires_grad=False)
    torch.testing.assert_close(lathe.matmul(x, parameter.T), x @ weight.T)
