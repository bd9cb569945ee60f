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


def _is_array_of(library, name, array):
    module = sys.modules.get(library)
    return module is not None and isinstance(array, getattr(module, name, ()))


def empty_like(array, shape, name):
    """A new array of the library of `array` and on its device: of PyTorch, or of an object with the same new_empty."""
    if hasattr(array, "new_empty"):
        if str(array.dtype).rpartition(".")[2] == name:
            return array.new_empty(shape)
        return array.new_empty(shape, dtype=getattr(sys.modules["torch"], name))
    if _is_array_of("cupy", "ndarray", array):
        with array.device:
            return sys.modules["cupy"].empty(shape, name)
    raise ValueError(f"Lathe cannot make a result for a {type(array).__name__} on a GPU. Pass out=")


def current_stream(array, index):
    """The handle of the current stream of the library of `array` on GPU `index`; None if it has none."""
    if _is_array_of("torch", "Tensor", array):
        return sys.modules["torch"].cuda.current_stream(index).cuda_stream
    if _is_array_of("cupy", "ndarray", array):
        with array.device:
            return sys.modules["cupy"].cuda.get_current_stream().ptr
    return None


def dtype_name(value):
    """"float32" of "float32", "f32", numpy.float32, torch.float32, a NumPy dtype, ..."""
    if not isinstance(value, str):
        value = str(value) if not isinstance(value, type) else value.__name__
    short = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "i32": "int32"}
    name = value.rpartition(".")[2]
    return short.get(name, name)
