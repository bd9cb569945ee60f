"""What Lathe refuses, and how it says so."""

import pickle
import sys

import lathe
import numpy
import pytest

A = numpy.ones((3, 4), numpy.float32)
B = numpy.ones((4, 5), numpy.float32)


@pytest.mark.parametrize("a, b, arguments, message", [
    (A.astype("float64"), B, {}, "a has dtype float64.*astype"),
    (A, B.astype("complex64"), {}, "b has dtype complex64"),
    (A.astype(">f4"), B, {}, "a has dtype >f4.*byte order"),
    (A[:, ::-1], B, {}, r"a is float32 of shape \(3, 4\) and strides \(4, -1\).*ascontiguousarray\(a\)"),
    (A[::-1], B, {}, "negative strides"),
    (A, numpy.ones((8, 10), numpy.float32)[::2, ::2], {}, r"ascontiguousarray\(b\)"),
    (numpy.broadcast_to(A[:1], (3, 4)), B, {}, "ascontiguousarray"),
    (A, B.T, {}, r"K = 4 columns, but b has K = 5 rows.*weight\.T"),
    (numpy.ones((1, 2, 3, 4), numpy.float32), B, {}, "4 dimensions"),
    (numpy.float32(1), B, {}, "0 dimensions"),
    (numpy.ones((2, 3, 4), numpy.float32), numpy.ones((3, 4, 5), numpy.float32), {}, "batch of 2"),
    (A, B, {"bias": numpy.ones(4, numpy.float32)}, "N = 5"),
    (A, B, {"bias": numpy.ones(10, numpy.float32)[::2]}, r"ascontiguousarray\(bias\)"),
    (A, B, {"residual": A}, "residual"),
    (A, B, {"out": A}, "out is float32 of shape"),
    (A, B, {"out": numpy.ones((5, 3), numpy.float32).T}, "rows are contiguous"),
    (A, B, {"beta": 1.0}, "beta needs out"),
    (A, B, {"activation": "tanh"}, "activation is 'tanh'.*'gelu_tanh'"),
    (A, B, {"math": 3}, "math is 3"),
    (A, B, {"determinism": "always"}, "'batch_invariant'"),
])
def test_refuses_with_advice(a, b, arguments, message):
    with pytest.raises(ValueError, match=message):
        lathe.matmul(a, b, **arguments)


def test_refuses_a_read_only_out():
    out = numpy.empty((3, 5), numpy.float32)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out .*read-only"):
        lathe.matmul(A, B, out=out)
    lathe.matmul(A, numpy.frombuffer(B.tobytes(), numpy.float32).reshape(4, 5))  # inputs may be read-only


def test_refuses_a_read_only_buffer_as_out():
    with pytest.raises(ValueError, match="out cannot be read and written"):
        lathe.matmul(A, B, out=memoryview(bytes(60)).cast("f", (3, 5)))


class Immutable:
    """An array of JAX: the buffer is read-only, and DLPack does not say so."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __buffer__(self, flags):  # Python 3.12
        if flags & 1:
            raise BufferError("read-only")
        return memoryview(self.array)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="only Python 3.12 has classes with buffers")
def test_refuses_an_immutable_array_as_out():
    with pytest.raises(ValueError, match="out cannot be read and written: read-only"):
        lathe.matmul(A, B, out=Immutable(numpy.empty((3, 5), numpy.float32)))


@pytest.mark.parametrize("b", [None, 3, "text", [[1.0]], object()])
def test_refuses_objects_that_are_no_arrays(b):
    with pytest.raises((TypeError, ValueError), match="^b "):
        lathe.matmul(A, b)


class Tensor:
    """As much of a PyTorch tensor as Lathe looks at."""

    requires_grad, device = True, (1, 0)

    def __dlpack__(self, **arguments):
        return A.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class WithoutDevice:
    def __dlpack__(self, **arguments):
        return B.__dlpack__()


def test_refuses_objects_with_half_of_dlpack():
    with pytest.raises(TypeError, match="b has __dlpack__ without __dlpack_device__"):
        lathe.matmul(A, WithoutDevice())


def test_refuses_tensors_that_require_gradients():
    with pytest.raises(ValueError, match=r"a requires gradients.*a\.detach\(\)"):
        lathe.matmul(Tensor(), B)
    tensor = Tensor()
    tensor.requires_grad = False
    assert lathe.matmul(tensor, B).shape == (3, 5)


def test_the_library_refuses_with_a_status():
    buffer = numpy.ones(100, numpy.float32)
    with pytest.raises(lathe.Error, match="overlap") as raised:
        lathe.matmul(buffer[:12].reshape(3, 4), B, out=buffer[2:17].reshape(3, 5))
    assert raised.value.status is lathe.Status.INVALID_ARGUMENT
    with pytest.raises(lathe.Error) as raised:
        lathe.matmul(A, B.astype(numpy.int8))
    assert raised.value.status in (lathe.Status.INVALID_ARGUMENT, lathe.Status.UNSUPPORTED)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.status, str(copy)) == (raised.value.status, str(raised.value))


def test_argmax_refuses_empty_rows_and_other_dtypes():
    with pytest.raises(lathe.Error):
        lathe.argmax(numpy.empty((3, 0), numpy.float32))
    with pytest.raises(ValueError):
        lathe.argmax(numpy.empty((3, 2, 1), numpy.float32))
    with pytest.raises(ValueError, match="float64"):
        lathe.argmax(numpy.empty((3, 2)))
    with pytest.raises(ValueError, match="rows are contiguous"):
        lathe.argmax(numpy.empty((4, 3), numpy.float32).T)


def test_matmul_argmax_refuses_batches():
    with pytest.raises(ValueError, match="no batch"):
        lathe.matmul_argmax(numpy.ones((2, 3, 4), numpy.float32), B)
    with pytest.raises(ValueError, match="no dtype"):
        lathe.matmul_argmax(A, B, logits_dtype="float7")
