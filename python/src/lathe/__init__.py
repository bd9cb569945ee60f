"""Lathe: matrix kernels that are compiled for each shape on first use and cached.

    >>> import numpy, lathe
    >>> x = numpy.ones((2, 3), numpy.float32)
    >>> weight = numpy.ones((4, 3), numpy.float32)  # [N, K], as PyTorch's Linear keeps it
    >>> lathe.matmul(x, weight.T, activation="relu").shape
    (2, 4)

A call runs on the device of its arrays: the CPU, or the GPU, in the current stream of the arrays' library. The process
opens a device at the first call that needs it, with the options that the environment names (docs/environment.md). Every
function may be called from any thread. The child of os.fork opens a CPU device of its own.
"""

import atexit as _atexit
import os as _os

from . import _core, gguf
from ._core import (PackedWeight, QuantisedWeight, Scales, argmax, grouped_matmul, matmul, matmul_argmax, pack,
                    set_miss_policy, statistics)
from ._errors import Error, Status
from ._plans import Explanation, calibrate, explain, warmup

__all__ = ["Error", "Explanation", "PackedWeight", "QuantisedWeight", "Scales", "Status", "argmax", "calibrate",
           "explain", "gguf", "grouped_matmul", "matmul", "matmul_argmax", "pack", "set_miss_policy", "statistics",
           "warmup"]
__version__ = _core.version()

_os.register_at_fork(after_in_child=_core.forget_devices)
_atexit.register(_core.close_devices)  # writes the last metrics
