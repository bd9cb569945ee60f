"""Lathe for PyTorch: operators, a Linear layer over packed weights, and optimize() for whole models.

    >>> import lathe.torch
    >>> model = lathe.torch.optimize(model, weights="int8")     # replaces nn.Linear, packs, compiles every kernel
    >>> with torch.inference_mode():
    ...     model.generate(...)

Importing this module makes Lathe compute on PyTorch's own threads; docs/pytorch.md says more.
"""

import warnings as _warnings

from .. import _core
from ._linear import LatheLinear
from ._ops import addmm, argmax, baddbmm, linear, matmul, packed_linear
from ._optimize import Report, optimize
from ._threads import share_threads

__all__ = ["LatheLinear", "Report", "addmm", "argmax", "baddbmm", "linear", "matmul", "optimize", "packed_linear",
           "share_threads"]

if not _core.has_avx2():
    _warnings.warn("this processor has no AVX2: Lathe's kernels for it are slow, and optimize() cannot use "
                   "weights=\"int8\" or \"q4_k\"", RuntimeWarning, stacklevel=2)
share_threads()
