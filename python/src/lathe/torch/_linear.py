"""LatheLinear: a Linear layer over a packed weight, or on a GPU over the weight as it is."""

import torch
from torch import nn

import lathe

from .. import _core
from . import _ops, _quantise

# Of each value of `weights`: the block format, elements of a block, and the quantiser.
FORMATS = {"int8": ("q8_0", 32, _quantise.q8_0), "q4_k": ("q4_k", 256, _quantise.q4_k)}


def refusal(weight, weights):
    """Why Lathe has no kernel for this weight; None if it has one."""
    if weight.device.type not in _ops.DEVICES:
        return f"its weight is on {weight.device}, and lathe.torch computes on {' and '.join(_ops.DEVICES)}"
    if weights is not None and weight.device.type != "cpu":
        return f"its weight is on {weight.device}, and weights=\"{weights}\" is for the CPU"
    if weight.dtype not in _ops.DTYPES:
        return f"its weight is {weight.dtype}, and Lathe multiplies float32, float16 and bfloat16"
    if 0 in weight.shape:
        return "its weight is empty"
    if weights is not None and weight.shape[1] % FORMATS[weights][1] != 0:
        return (f"its {weight.shape[1]} inputs are no whole blocks of {FORMATS[weights][1]}, which "
                f"weights=\"{weights}\" needs")
    return None


class LatheLinear(nn.Module):
    """x @ weight.T + bias for inference, on the CPU with a weight that Lathe has packed.

    linear       the nn.Linear to stand for. Its bias is kept as it is, without gradients
    weights      None: the weight's own dtype. "int8": blocks of 32 int8 with a float16 scale (GGUF's q8_0). "q4_k":
                 GGUF's q4_k. With both, each row of x is rounded to int8 in blocks before it is multiplied
    keep_weight  True: `weight` stays, so that state_dict, load_state_dict, pickle, deepcopy and .to(dtype) work as for
                 nn.Linear. False: its memory is freed, and these raise RuntimeError. On a GPU nothing is packed, so the
                 weight always stays

    Raises ValueError if Lathe has no kernel for the weight.
    """

    def __init__(self, linear, weights=None, keep_weight=False):
        super().__init__()
        if weights is not None and weights not in FORMATS:
            raise ValueError(f"weights is {weights!r}, but must be None, 'int8' or 'q4_k'")
        reason = refusal(linear.weight, weights)
        if reason is not None:
            raise ValueError(f"LatheLinear cannot replace this layer: {reason}")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weights, self.training = weights, linear.training
        self.keep_weight = keep_weight or not linear.weight.is_cpu
        self.dtype = linear.weight.dtype
        if self.keep_weight:
            self.weight = linear.weight
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach(), requires_grad=False)
        self._pack(linear.weight)

    def _pack(self, weight):
        self.device = weight.device
        source = weight.detach().resolve_neg()
        self._bias = None if self.bias is None else self.bias.detach()
        if not weight.is_cpu:
            self._packed, self._bytes, self._weight = None, None, _ops._matrix(source)
            return
        a_dtype = _ops.DTYPES[self.dtype]
        if self.weights is None:
            self._packed = lathe.pack(_ops._matrix(source).T)
        else:
            name, _, quantise = FORMATS[self.weights]
            blocks = lathe.QuantisedWeight(quantise(source), name, tuple(source.shape))
            self._packed = lathe.pack(blocks, a_dtype=a_dtype, math="int8")
        self._weight = self._packed
        self._bytes = torch.from_numpy(self._packed.data)
        self._layout, self._format, self._math = self._packed.layout, self._packed.dtype, self._packed.math

    @property
    def _as_b(self):
        """What lathe.matmul and lathe.warmup take as b."""
        return self._packed if self._packed is not None else self._weight.T

    def forward(self, x):
        if torch.compiler.is_compiling() or not _is_plain(x):
            if self._packed is None:
                return torch.ops.lathe.linear(x, self._weight, self._bias)
            return torch.ops.lathe.packed_linear(x, self._bytes, self.bias, self.out_features, self.in_features,
                                                 self._layout, self._format, self._math)
        # Without PyTorch's dispatcher, which takes several times as long as a small product.
        if x.requires_grad and torch.is_grad_enabled():
            _ops.refuse_autograd("packed_linear")
        if x.dtype is not self.dtype:
            raise RuntimeError(f"LatheLinear: x is {x.dtype}, but the layer was made for {self.dtype}")
        out = x.new_empty((*x.shape[:-1], self.out_features))
        _core.linear(x if x.is_contiguous() and not x.requires_grad else x.detach().contiguous(), self._weight,
                     self._bias, out, None)
        return out

    def extra_repr(self):
        return (f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
                f"weights={self.weights!r}, dtype={self.dtype}")

    def _need_weight(self, what):
        if not self.keep_weight:
            raise RuntimeError(f"{what} needs the weight of a LatheLinear, which was freed when it was packed. Pass "
                               "keep_weight=True to lathe.torch.optimize, or do it before")

    def __getattr__(self, name):
        if name == "weight" and not self.__dict__.get("keep_weight", True):
            raise AttributeError("this LatheLinear has no weight: it was freed when it was packed. Pass "
                                 "keep_weight=True to lathe.torch.optimize")
        return super().__getattr__(name)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        self._need_weight("state_dict()")
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict, prefix, *arguments):
        self._need_weight("load_state_dict()")
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        self._pack(self.weight)

    def _apply(self, function, recurse=True):
        probe = function(torch.empty(0, dtype=self.dtype, device=self.device))
        changes = (probe.dtype, probe.device) != (self.dtype, self.device)
        if changes:
            self._need_weight("a change of dtype or device")
        super()._apply(function, recurse)
        if changes or self._packed is None:
            reason = refusal(self.weight, self.weights)
            if reason is not None:
                raise RuntimeError(f"LatheLinear cannot follow this change: {reason}")
            self.dtype = self.weight.dtype
            self._pack(self.weight)
        return self

    def __getstate__(self):
        self._need_weight("pickling or copying a model")
        state = self.__dict__.copy()
        for name in ("_packed", "_weight", "_bytes", "_bias"):
            state.pop(name, None)
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self._pack(self.weight)


def _is_plain(x):
    """Whether x is an ordinary tensor and nothing but autograd would see the call."""
    return (type(x) is torch.Tensor and x.device.type in _ops.DEVICES and not torch._C._len_torch_dispatch_stack()
            and not torch._C._get_tracing_state() and torch._C._functorch.maybe_current_level() is None)
