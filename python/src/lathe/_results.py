"""Arrays for results, and names of dtypes."""

import sys

import numpy


def dtype(name):
    """The NumPy dtype of this name. bfloat16 needs the package ml_dtypes."""
    if name != "bfloat16":
        return numpy.dtype(name)
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("the result is bfloat16, which NumPy has only with ml_dtypes: pip install ml_dtypes, "
                        "or pass out=") from None
    return numpy.dtype(ml_dtypes.bfloat16)


def empty_like(array, shape, name):
    """A new array of the library of `array`, a PyTorch tensor or an object with the same new_empty."""
    if str(array.dtype).rpartition(".")[2] == name:
        return array.new_empty(shape)
    torch = sys.modules["torch"]
    return array.new_empty(shape, dtype=getattr(torch, name))


def dtype_name(value):
    """"float32" of "float32", "f32", numpy.float32, torch.float32, a NumPy dtype, ..."""
    if not isinstance(value, str):
        value = str(value) if not isinstance(value, type) else value.__name__
    short = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32"}
    name = value.rpartition(".")[2]
    return short.get(name, name)
