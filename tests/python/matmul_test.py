"""lathe.matmul, argmax and matmul_argmax against NumPy in float64."""

import math

import lathe
import ml_dtypes
import numpy
import pytest

RNG = numpy.random.default_rng(5)
# Relative error of a result's dtype, and of a float32 sum.
EPSILON = {numpy.dtype("float32"): 2.0**-23, numpy.dtype("float16"): 2.0**-10,
           numpy.dtype(ml_dtypes.bfloat16): 2.0**-7}
ERF = numpy.vectorize(math.erf, otypes=[float])
ACTIVATIONS = {None: lambda x: x, "relu": lambda x: numpy.maximum(x, 0), "silu": lambda x: x / (1 + numpy.exp(-x)),
               "gelu": lambda x: x * 0.5 * (1 + ERF(x / numpy.sqrt(2))),
               "gelu_tanh": lambda x: x * 0.5 * (1 + numpy.tanh(numpy.sqrt(2 / numpy.pi) * (x + 0.044715 * x**3)))}


def random(shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def wide(array):
    return numpy.asarray(array).astype(numpy.float64)


def assert_close(result, expected, a, b):
    """The error of a sum is at most K float32 roundings of the sum of magnitudes, then one of the result."""
    k = a.shape[-1]
    magnitude = numpy.abs(wide(a)) @ numpy.abs(wide(b))
    bound = (k + 4) * 2.0**-23 * (magnitude + 1) + EPSILON[result.dtype] * (numpy.abs(expected) + 1e-3)
    assert result.shape == expected.shape
    assert (numpy.abs(wide(result) - expected) <= bound).all()


@pytest.mark.parametrize("m, n, k", [(1, 1, 1), (1, 5, 7), (3, 1, 9), (4, 6, 1), (2, 3, 4), (17, 33, 65), (0, 3, 4),
                                     (3, 0, 4), (3, 4, 0), (1, 64, 128)])
@pytest.mark.parametrize("transposed", [False, True])
def test_matches_numpy_for_edges_and_transposed_weights(m, n, k, transposed):
    a = random((m, k))
    b = random((n, k)).T if transposed else random((k, n))
    assert_close(lathe.matmul(a, b), wide(a) @ wide(b), a, b)


@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_matches_numpy_for_16_bit_dtypes(dtype):
    a, b = random((5, 40), dtype), random((24, 40), dtype)
    result = lathe.matmul(a, b.T)
    assert result.dtype == dtype
    assert_close(result, wide(a) @ wide(b).T, a, b.T)


def test_multiplies_float32_by_a_bfloat16_weight():
    a, b = random((3, 32)), random((16, 32), ml_dtypes.bfloat16)
    assert_close(lathe.matmul(a, b.T), wide(a) @ wide(b).T, a, b.T)


def test_sums_int8_exactly():
    a = RNG.integers(-128, 128, (4, 70), numpy.int8)
    b = RNG.integers(-128, 128, (70, 9), numpy.int8)
    result = lathe.matmul(a, b)
    assert result.dtype == numpy.int32
    assert (result == a.astype(numpy.int64) @ b.astype(numpy.int64)).all()
    scaled = lathe.matmul(a, b, alpha=0.5, out=numpy.empty((4, 9), numpy.float32))
    assert (scaled == 0.5 * (a.astype(numpy.int64) @ b.astype(numpy.int64))).all()


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
def test_computes_the_epilogue(activation):
    a, b, bias, residual, old = random((5, 8)), random((8, 6)), random(6), random((5, 6)), random((5, 6))
    out = old.copy()
    result = lathe.matmul(a, b, out=out, bias=bias, activation=activation, residual=residual, alpha=0.5, beta=-2)
    assert result is out
    inner = 0.5 * (wide(a) @ wide(b)) - 2 * wide(old) + wide(bias)
    numpy.testing.assert_allclose(out, ACTIVATIONS[activation](inner) + wide(residual), rtol=1e-5, atol=1e-5)


def test_writes_into_a_slice_and_nothing_else():
    a, b = random((3, 4)), random((4, 5))
    whole = numpy.full((3, 9), 7, numpy.float32)
    lathe.matmul(a, b, out=whole[:, 2:7])
    assert_close(whole[:, 2:7].copy(), wide(a) @ wide(b), a, b)
    assert (whole[:, :2] == 7).all() and (whole[:, 7:] == 7).all()


def test_reads_views_without_copies():
    big = random((20, 30))
    for a in (big[2:9, 3:13], big.T[4:11, 1:11], big[::2, :10], big[5:6, :10], numpy.asfortranarray(big[:4, :10])):
        b = random((10, 6))
        assert_close(lathe.matmul(a, b), wide(a) @ wide(b), a, b)


@pytest.mark.parametrize("a, b", [((4,), (4, 3)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)),
                                  ((2, 3, 4), (2, 4, 5)), ((3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)),
                                  ((2, 1, 4), (1, 4, 5)), ((0, 3, 4), (4, 5)), ((0, 3, 4), (0, 4, 5)),
                                  ((4,), (2, 4, 5)), ((2, 3, 4), (4,))])
def test_has_numpys_shapes(a, b):
    a, b = random(a), random(b)
    result = lathe.matmul(a, b)
    expected = numpy.matmul(a, b)
    assert result.shape == expected.shape
    numpy.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_takes_buffers_that_are_no_numpy_arrays():
    import array
    a = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 2))
    assert lathe.matmul(a, a).tolist() == [[7, 10], [15, 22]]


class OnlyDlpack:
    """An array with DLPack and nothing else. `new_empty` makes it like a PyTorch tensor."""

    def __init__(self, array):
        self.array, self.dtype = array, array.dtype

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def new_empty(self, shape):
        return OnlyDlpack(numpy.empty(shape, self.array.dtype))


def test_takes_dlpack_and_returns_the_same_library():
    a, b = random((3, 4)), random((5, 4))
    result = lathe.matmul(OnlyDlpack(a), OnlyDlpack(b.T), bias=OnlyDlpack(numpy.zeros(5, numpy.float32)))
    assert isinstance(result, OnlyDlpack)
    assert_close(result.array, wide(a) @ wide(b).T, a, b.T)
    assert isinstance(lathe.matmul(a, OnlyDlpack(b.T)), numpy.ndarray)


def test_holds_no_reference_after_a_call():
    import sys
    a, b = random((3, 4)), random((4, 5))
    lathe.matmul(a, b)
    before = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(100):
        lathe.matmul(a, b, out=numpy.empty((3, 5), numpy.float32))
        lathe.matmul(OnlyDlpack(a), b)
        with pytest.raises(ValueError):
            lathe.matmul(a, a)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == before
    a.resize((4, 3), refcheck=False)  # NumPy refuses it while a buffer is exported
    lathe_made = lathe.matmul(a, random((3, 2)))
    assert sys.getrefcount(lathe_made) == 2


@pytest.mark.parametrize("shape", [(1, 1), (3, 1000), (0, 5), (7,)])
def test_argmax_matches_numpy(shape):
    x = random(shape)
    indices, values = lathe.argmax(x, values=True)
    assert indices.dtype == numpy.int64 and indices.shape == shape[:-1]
    assert (indices == numpy.argmax(x, axis=-1)).all()
    assert (values == x.max(axis=-1, initial=-numpy.inf)).all()
    assert (lathe.argmax(x) == indices).all()


def test_argmax_takes_the_first_nan_and_the_lowest_index():
    x = numpy.array([[1, 3, 3], [1, numpy.nan, numpy.nan]], numpy.float32)
    assert lathe.argmax(x).tolist() == [1, 1]


@pytest.mark.parametrize("a_shape", [(1, 32), (5, 32), (0, 32), (32,)])
def test_matmul_argmax_matches_the_two_steps(a_shape):
    a, weight, bias = random(a_shape), random((100, 32)), random(100)
    logits = wide(a) @ wide(weight).T + wide(bias)
    indices, values = lathe.matmul_argmax(a, weight.T, bias=bias, values=True)
    assert indices.shape == a_shape[:-1]
    assert (indices == logits.argmax(axis=-1)).all()
    numpy.testing.assert_allclose(values, logits.max(axis=-1, initial=-numpy.inf), rtol=1e-5, atol=1e-5)
