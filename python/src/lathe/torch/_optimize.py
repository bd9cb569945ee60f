"""optimize(): replaces the Linear layers of a model, packs their weights and compiles every kernel."""

import collections
import sys
import time

import torch
from torch import nn

import lathe

from . import _threads
from ._linear import FORMATS, LatheLinear, refusal

# These read the weights of their own Linear layers, so a replaced layer would not be called.
_READ_WEIGHTS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


class Report:
    """What optimize() did. str() is a text of a few lines.

    replaced  names of the layers that are now a LatheLinear
    skipped   {name: reason} of the other Linear layers
    before, after  bytes of the replaced weights, and of their packed form
    warmup    what lathe.warmup returned
    """

    def __init__(self):
        self.replaced, self.skipped = [], {}
        self.before = self.after = 0
        self.warmup = None
        self.seconds = 0.0

    def __str__(self):
        lines = [f"lathe: {len(self.replaced)} Linear layers replaced, {len(self.skipped)} skipped; weights "
                 f"{self.before / 1e6:.1f} MB, packed {self.after / 1e6:.1f} MB; {self.seconds:.1f} s"]
        reasons = collections.defaultdict(list)
        for name, reason in self.skipped.items():
            reasons[reason].append(name)
        for reason, names in reasons.items():
            lines.append(f"  skipped {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}: {reason}")
        return "\n".join(lines)

    __repr__ = __str__


class _Bar:
    """A line on stderr that shows how far something is. Only the end is shown if stderr is no terminal."""

    def __init__(self, shown, what):
        self.shown, self.what, self.terminal = shown, what, sys.stderr.isatty()

    def __call__(self, done, total, *_):
        if not self.shown or not (self.terminal or done == total):
            return
        filled = 30 * done // max(total, 1)
        text = f"lathe: {self.what} [{'#' * filled}{'.' * (30 - filled)}] {done}/{total}"
        print("\r" + text if self.terminal else text, end="" if done < total else "\n", file=sys.stderr, flush=True)


def _why_not(parent, module, weights, skip, name):
    """The reason to leave this Linear layer as it is; None: replace it."""
    if name in skip or name.rpartition(".")[2] in skip:
        return "the caller said so"
    if type(module) is not nn.Linear:
        return f"it is a {type(module).__name__}, and only nn.Linear itself is replaced"
    if isinstance(parent, _READ_WEIGHTS):
        return f"{type(parent).__name__} reads its weight without calling it"
    if module._forward_hooks or module._forward_pre_hooks or "forward" in module.__dict__:
        return "it has hooks"
    return refusal(module.weight, weights)


def optimize(model, weights=None, *, m_max=512, keep_weight=False, skip=(), progress=True):
    """Makes a model compute its Linear layers with Lathe. Changes the model in place and returns it.

    model        a torch.nn.Module in CPU memory or on a GPU, for example of Hugging Face's transformers. The output
                 layer is replaced too; an embedding that shares its weight keeps the weight, and so does the layer. On
                 a GPU every layer keeps its weight, because nothing is packed
    weights      None: weights keep their dtype. "int8" or "q4_k": they are quantised (LatheLinear says how)
    m_max        the largest number of tokens times sequences in a call that must not compile
    keep_weight  True: keep the original weights beside the packed ones, for state_dict, pickle and deepcopy
    skip         names of layers to leave alone, whole ("lm_head") or their last part ("gate")
    progress     True: show progress and what was done on stderr

    model.lathe_report is a Report. Raises ValueError for an unknown `weights`, and lathe.Error if a kernel cannot be
    compiled. If nn.Linear is shared or quantised in ways that Lathe does not know, the layer is skipped, and the report
    says why.
    """
    if weights is not None and weights not in FORMATS:
        raise ValueError(f"weights is {weights!r}, but must be None, 'int8' or 'q4_k'")
    started = time.monotonic()
    _threads.share_threads()
    if isinstance(model, nn.Linear):
        holder = nn.Sequential(model)
        optimize(holder, weights, m_max=m_max, keep_weight=keep_weight, skip=skip, progress=progress)
        holder[0].lathe_report = holder.lathe_report
        return holder[0]

    report = Report()
    uses = collections.Counter(id(parameter)
                               for _, parameter in model.named_parameters(remove_duplicate=False))
    layers, modules = [], {}
    for name, module in model.named_modules(remove_duplicate=False):
        if not isinstance(module, nn.Linear):
            continue
        parent = model.get_submodule(name.rpartition(".")[0])
        reason = _why_not(parent, module, weights, skip, name)
        if reason is None:
            layers.append((name, parent, module))
        else:
            report.skipped[name] = reason
    bar = _Bar(progress, "packing  ")
    for done, (name, parent, module) in enumerate(layers, 1):
        if id(module) not in modules:
            tied = uses[id(module.weight)] > 1
            modules[id(module)] = LatheLinear(module, weights, keep_weight or tied)
            report.before += module.weight.nbytes
            report.after += modules[id(module)]._weight.nbytes
        setattr(parent, name.rpartition(".")[2], modules[id(module)])
        report.replaced.append(name)
        bar(done, len(layers))
    if layers:
        report.warmup = _warm_up(report, modules.values(), m_max, _Bar(progress, "compiling"))
    report.seconds = time.monotonic() - started
    model.lathe_report = report
    if progress:
        print(report, file=sys.stderr)
    return model


def _warm_up(report, layers, m_max, bar):
    """Prepares the kernels of each kind of layer once."""
    kinds = {}
    for layer in layers:
        bias = None if layer.bias is None else layer.bias.dtype
        kinds.setdefault((layer.device, layer.dtype, bias, layer.out_features, layer.in_features), layer)
    by_device = collections.defaultdict(dict)
    for (device, dtype, bias, n, k), layer in kinds.items():
        by_device[device, dtype, bias][f"{n}x{k}"] = layer._as_b
    total = collections.Counter()
    for (_, dtype, bias), weights in by_device.items():
        total.update(lathe.warmup(weights, m=m_max, a_dtype=dtype, out_dtype=dtype, bias_dtype=bias, progress=bar))
    return dict(total)
