"""The operators of torch.ops.lathe. Each computes where its arguments lie, has a fake kernel, and refuses autograd."""

from typing import Optional

import torch
from torch import Tensor, library

import lathe

from .. import _core

# Devices of PyTorch. "cuda" is also AMD's.
DEVICES = ("cpu", "cuda")
DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_NO_AUTOGRAD = ("lathe::{}: an argument requires gradients, and Lathe computes none. Run the model under "
                "torch.inference_mode() or torch.no_grad(), or pass tensor.detach()")


def refuse_autograd(name):
    raise RuntimeError(_NO_AUTOGRAD.format(name))


def _check(name, *tensors):
    """Raises unless all are of one dtype that Lathe has and on one device. None is allowed."""
    tensors = [tensor for tensor in tensors if tensor is not None]
    first = tensors[0]
    for tensor in tensors:
        if tensor.device != first.device:
            raise RuntimeError(f"lathe::{name}: the arguments are on {first.device} and {tensor.device}. "
                               "Move them to one device")
        if tensor.dtype != first.dtype:
            raise RuntimeError(f"lathe::{name}: the arguments are {first.dtype} and {tensor.dtype}. "
                               "Convert them to one dtype")
    if first.dtype not in DTYPES:
        raise RuntimeError(f"lathe::{name}: the arguments are {first.dtype}, but Lathe takes float32, float16 and "
                           "bfloat16")


def _matrix(tensor):
    """A tensor that Lathe can read: `tensor` or a contiguous copy."""
    if tensor.device.type not in DEVICES:
        raise RuntimeError(f"a tensor is on {tensor.device}, but lathe.torch computes on {' and '.join(DEVICES)}")
    tensor = tensor.detach().resolve_neg()
    if tensor.is_contiguous() or tensor.dim() < 2:
        return tensor.contiguous()
    rows, columns = tensor.shape[-2:]
    down, across = tensor.stride()[-2:]
    by_rows = (across == 1 or columns == 1) and (down >= columns or rows == 1)
    by_columns = (down == 1 or rows == 1) and (across >= rows or columns == 1)
    return tensor if by_rows or by_columns else tensor.contiguous()


def _define(name):
    """Registers a function as torch.ops.lathe.<name>, with a refusal of autograd."""
    def register(function):
        op = library.custom_op(f"lathe::{name}", function, mutates_args=())
        # Called before the result is handed out, if gradients are wanted.
        op.register_autograd(lambda *_: refuse_autograd(name), setup_context=lambda **_: refuse_autograd(name))
        return op
    return register


def _out_of_linear(name, x, n, k):
    if x.dim() == 0 or x.shape[-1] != k:
        raise RuntimeError(f"lathe::{name}: x has shape {tuple(x.shape)}, but its last dimension must be K = {k}")
    return x.new_empty((*x.shape[:-1], n))


def _out_of_linear_weight(x, weight, bias):
    """Checks the arguments. Returns a new tensor for the result."""
    _check("linear", x, weight, bias)
    if weight.dim() not in (1, 2) or (bias is not None and bias.shape != weight.shape[:-1]):
        raise RuntimeError(f"lathe::linear: weight has shape {tuple(weight.shape)}"
                           + (f" and bias {tuple(bias.shape)}" if bias is not None else "")
                           + ", but they must be (N, K) and (N,), or (K,) and ()")
    out = _out_of_linear("linear", x, weight.shape[:-1].numel(), weight.shape[-1])
    return out if weight.dim() == 2 else out.view(x.shape[:-1])


@_define("linear")
def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x @ weight.T + bias, as torch.nn.functional.linear: x (..., K), weight (N, K), bias (N,)."""
    out = _out_of_linear_weight(x, weight, bias)
    _core.linear(_matrix(x).contiguous(), _matrix(weight if weight.dim() == 2 else weight.unsqueeze(0)),
                 None if bias is None else _matrix(bias.reshape(-1)),
                 out if weight.dim() == 2 else out.unsqueeze(-1), None)
    return out


@linear.register_fake
def _(x, weight, bias=None):
    return _out_of_linear_weight(x, weight, bias)


def _check_packed(x, packed, bias, n):
    _check("packed_linear", x, bias)
    if packed.device != x.device:
        raise RuntimeError(f"lathe::packed_linear: x is on {x.device}, the weight on {packed.device}")
    if packed.dtype != torch.int8 or packed.dim() != 1 or (bias is not None and bias.shape != (n,)):
        raise RuntimeError("lathe::packed_linear: packed must be the int8 bytes of a packed weight, and bias (N,)")


@_define("packed_linear")
def packed_linear(x: Tensor, packed: Tensor, bias: Optional[Tensor], n: int, k: int, layout: int, dtype: str,
                  math: str) -> Tensor:
    """x @ weight.T + bias over the bytes of a packed weight: what LatheLinear calls under torch.compile."""
    _check_packed(x, packed, bias, n)
    out = _out_of_linear("packed_linear", x, n, k)
    weight = _core.packed_view(packed, layout, n, k, dtype, DTYPES[x.dtype], math)
    _core.linear(_matrix(x).contiguous(), weight, None if bias is None else _matrix(bias), out, None)
    return out


@packed_linear.register_fake
def _(x, packed, bias, n, k, layout, dtype, math):
    _check_packed(x, packed, bias, n)
    return _out_of_linear("packed_linear", x, n, k)


def _out_of_matmul(name, a, b):
    if a.dim() != b.dim() or a.dim() not in (2, 3) or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        raise RuntimeError(f"lathe::{name}: the shapes are {tuple(a.shape)} and {tuple(b.shape)}, but must be "
                           "(M, K) and (K, N), or (batch, M, K) and (batch, K, N)")
    return a.new_empty((*a.shape[:-1], b.shape[-1]))


@_define("matmul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of two matrices or of two batches, as torch.mm and torch.bmm."""
    _check("matmul", a, b)
    out = _out_of_matmul("matmul", a, b)
    lathe.matmul(_matrix(a), _matrix(b), out=out)
    return out


@matmul.register_fake
def _(a, b):
    _check("matmul", a, b)
    return _out_of_matmul("matmul", a, b)


def _out_of_addmm(input, a, b):
    _check("addmm", a, b, input)
    out = _out_of_matmul("addmm", a, b)
    try:
        fits = torch.broadcast_shapes(input.shape, out.shape) == out.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(f"lathe::addmm: the input of shape {tuple(input.shape)} cannot be expanded to the "
                           f"product's {tuple(out.shape)}")
    return out


@_define("addmm")
def addmm(input: Tensor, a: Tensor, b: Tensor, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * input + alpha * (a @ b), as torch.addmm, and as torch.baddbmm if a and b are batches."""
    out = _out_of_addmm(input, a, b)
    if beta == 1 and input.dim() == 1 and input.shape[0] == out.shape[-1]:
        lathe.matmul(_matrix(a), _matrix(b), out=out, bias=_matrix(input), alpha=alpha)
        return out
    if beta != 0:
        out.copy_(input.detach())
    lathe.matmul(_matrix(a), _matrix(b), out=out, alpha=alpha, beta=beta)
    return out


@addmm.register_fake
def _(input, a, b, beta=1.0, alpha=1.0):
    return _out_of_addmm(input, a, b)


baddbmm = addmm


def _out_of_argmax(x, dim, keepdim):
    _check("argmax", x)
    if dim is None:
        if x.numel() == 0:
            raise IndexError("lathe::argmax: x has no element. Give dim")
        return x.new_empty((1,) * x.dim() if keepdim else (), dtype=torch.int64)
    if not -max(x.dim(), 1) <= dim < max(x.dim(), 1):
        raise IndexError(f"lathe::argmax: dim is {dim}, but x has {x.dim()} dimensions")
    shape = list(x.shape)
    if shape:
        if shape[dim] == 0:
            raise IndexError(f"lathe::argmax: dimension {dim} of x has size 0")
        shape[dim] = 1
        if not keepdim:
            del shape[dim]
    return x.new_empty(shape, dtype=torch.int64)


@_define("argmax")
def argmax(x: Tensor, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
    """The index of the maximum along `dim`, or of the flattened x, as torch.argmax. The lowest index wins a tie."""
    out = _out_of_argmax(x, dim, keepdim)
    rows = x.detach().resolve_neg()
    rows = rows.reshape(1, -1) if dim is None or x.dim() == 0 else rows.movedim(dim, -1).flatten(0, -2) if x.dim() > 1 \
        else rows.unsqueeze(0)
    if out.numel() > 0:
        indices = lathe.argmax(rows.contiguous())
        out.copy_((torch.from_numpy(indices) if x.is_cpu else indices).view(out.shape))
    return out


@argmax.register_fake
def _(x, dim=None, keepdim=False):
    return _out_of_argmax(x, dim, keepdim)
