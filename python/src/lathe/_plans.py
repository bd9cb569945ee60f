"""Explaining, warming up and calibrating: what is not on the path of a call."""

import html
import json
import os

import numpy

from . import _core, _roofline
from ._results import dtype, dtype_name


def _microseconds(seconds):
    return f"{seconds * 1e6:.2f} us"


def _config(config):
    return " ".join(f"{name}={value}" for name, value in config.items() if isinstance(value, (int, float, str)))


class Explanation:
    """Why a request gets its kernel. str() is a text, .plan the JSON object of lathe_plan_explain as a dict.

    A notebook shows a table, and a roofline chart if matplotlib is installed.
    """

    #: Candidates that the text and the table show; .plan has all.
    shown = 20

    def __init__(self, plan):
        self.plan = plan

    def _facts(self):
        """Name and text of what the plan says in one line each."""
        plan = self.plan
        facts = [("request", plan["request"]), ("device", plan.get("device", ""))]
        if "config" in plan:
            facts += [("choice", _config(plan["config"])), ("predicted", _microseconds(plan["predicted_seconds"])),
                      ("numbers", plan.get("numeric_recipe", "")), ("chosen by", plan.get("chosen_by", ""))]
        else:
            facts.append(("choice", "no kernel is needed"))
        return facts

    def _rows(self):
        """Rank, predicted time, and configuration or reason for a rejection, of the first candidates."""
        for candidate in self.plan.get("candidates", [])[:self.shown]:
            legal = candidate.get("legal", False)
            yield (str(candidate["rank"]) if legal else "-",
                   _microseconds(candidate["predicted_seconds"]) if legal else "-",
                   _config(candidate["config"]) + ("" if legal else "; " + candidate["rejection"]))

    def __str__(self):
        lines = [f"{name:<10} {text}" for name, text in self._facts()]
        rows = list(self._rows())
        if rows:
            lines += ["", f"{'rank':>5} {'predicted':>12}  candidate"]
            lines += [f"{rank:>5} {time:>12}  {text}" for rank, time, text in rows]
            left = len(self.plan["candidates"]) - len(rows)
            if left > 0:
                lines.append(f"{left} more candidates are in .plan")
        return "\n".join(lines)

    def __repr__(self):
        return f"<lathe.Explanation of {self.plan['request']}>"

    def _repr_html_(self):
        def row(cells, tag="td"):
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        facts = "".join(row(fact) for fact in self._facts())
        candidates = "".join(row(cells) for cells in self._rows())
        head = row(("rank", "predicted", "candidate"), "th")
        tables = f"<table>{facts}</table><table><thead>{head}</thead><tbody>{candidates}</tbody></table>"
        return tables + _roofline.svg(self.plan)


def explain(a, b=None, *, op=None, **arguments):
    """Shows which kernel a call gets, and why. Nothing is compiled, and no element is read.

    a, b       the arrays of the call; only shapes, dtypes and strides count (numpy.empty is enough)
    op         "matmul", "matmul_argmax" or "argmax" (of a). None: "argmax" if b is missing, else "matmul"
    arguments  those of lathe.matmul

    Returns an Explanation. Takes about a millisecond. Raises ValueError and lathe.Error as the call would.
    """
    return Explanation(json.loads(_core.explain(a, b, op=op or ("argmax" if b is None else "matmul"), **arguments)))


def _describe(weight, scale, m, a_dtype):
    """An a for `weight`: the right K and dtype, and as many rows as asked. Its memory is never touched."""
    if isinstance(scale, _core.Scales):
        shape, k, own = tuple(weight.shape[:-2]), weight.shape[-2] * scale.elements_per_byte, "float32"
    elif isinstance(weight, (_core.PackedWeight, _core.QuantisedWeight)):
        shape, k = weight.shape[:-2], weight.K
        own = weight.a_dtype if isinstance(weight, _core.PackedWeight) else "float32"
    else:
        shape, k = tuple(weight.shape[:-2]), weight.shape[-2]
        own = dtype_name(weight.dtype)
    return numpy.empty((*shape, m, k), dtype(dtype_name(a_dtype) if a_dtype is not None else own))


def _named(things):
    """One thing, a list of them, or a dict, as a dict with names."""
    if isinstance(things, (list, tuple)):
        return {str(index): thing for index, thing in enumerate(things)}
    return things if hasattr(things, "items") else {"": things}


def warmup(weights, *, m=512, a_dtype=None, out_dtype=None, bias_dtype=None, activation=None, residual_dtype=None,
           beta=0.0, math=None, determinism=None, b_scale=None, op="matmul", device=None, progress=None):
    """Compiles or loads every kernel that products of these weights need, so that no later call compiles.

    weights         one b of lathe.matmul, a list of them, a dict of names and weights, or the text of a manifest
                    (docs/warm-up.md); with a text, only `device` and `progress` have an effect
    m               the largest number of rows of a
    a_dtype         dtype of a; None: the weight's own (float32 if it is in blocks or has scales). An a with scales of
                    its own counts as float32
    out_dtype       dtype of out; None: a's (int32 if that is int8)
    bias_dtype, residual_dtype   dtypes of bias and residual; None: the calls have none
    activation, beta, math, determinism   as in the calls; of beta only whether it is 0
    b_scale         the Scales of the weights, for fp8 and fp4: one, a list or a dict, as `weights`; None, in a list or
                    dict too: no scales
    op              "matmul" or "matmul_argmax"
    device          "cpu", "cuda:0", "hip:0" and so on; None: where the weights lie, the CPU for a text
    progress        called as progress(done, total, name, problem, error) after each class; what it raises ends the
                    warm-up

    Returns a dict: how many classes there are, and how many were compiled, loaded or present already, and the
    milliseconds. Raises lathe.Error if a class cannot be prepared.
    """
    manifest = _core.Manifest()
    if isinstance(weights, str):
        manifest.parse(weights)
        return _core.warmup(manifest, progress, device)
    weights, scales = _named(weights), _named(b_scale) if b_scale is not None else {}
    unknown = [name for name in scales if name not in weights]
    if unknown:
        raise ValueError(f"b_scale has scales of {unknown[0]!r}, which is not one of the weights")
    if op not in ("matmul", "matmul_argmax"):
        raise ValueError(f"op is {op!r}, but must be 'matmul' or 'matmul_argmax'")
    if scales and op == "matmul_argmax":
        raise ValueError("b_scale is for op 'matmul'; matmul_argmax has no scales")

    def array(shape, name):
        return None if name is None else numpy.empty(shape, dtype(dtype_name(name)))

    for name, weight in weights.items():
        scale = scales.get(name)
        a = _describe(weight, scale, 1, a_dtype)
        n = getattr(weight, "N", None) or weight.shape[-1]
        bias = array((n,), bias_dtype)
        if op == "matmul":
            shape = (*a.shape[:-1], n)
            manifest.add_matmul(name, m, a, weight, out=array(shape, out_dtype), bias=bias,
                                      activation=activation, residual=array(shape, residual_dtype), beta=beta,
                                      math=math, determinism=determinism, b_scale=scale)
        else:
            manifest.add_matmul_argmax(name, m, a, weight, bias=bias, math=math, determinism=determinism)
    return _core.warmup(manifest, progress, device)


def calibrate(seconds=0, output=None):
    """Measures this machine, so that predictions fit it, and stores the facts in the calibration file.

    seconds  at most 10; 0: 6
    output   path of another calibration file that gets the machine too

    Returns the facts as a dict (lathe_calibrate in include/lathe/calibrate.h). The next call opens a device that uses
    them, so statistics() begin anew. Run nothing else meanwhile. Raises lathe.Error if no file can be written.
    """
    return json.loads(_core.calibrate(float(seconds), os.fspath(output) if output is not None else ""))
