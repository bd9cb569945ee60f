#!/usr/bin/env python3
"""Runs the few-row kernels for AMD GPUs in an emulator of their instructions and checks exact sums.

usage: emulate_skinny.py LATHE FACTS ARCH ARGS_HEADER [--full] [SUBSTRING]
  LATHE is the lathe command, FACTS a facts file, ARCH for example gfx942, ARGS_HEADER src/core/args.h. Only cases whose
  name contains SUBSTRING run; --full runs every plan of the table for every type.
Needs an emulator (amd_emulator.py). Without it it says so and exits with 77, which CTest counts as skipped.

Tests both forms, lanes that multiply and matrix instructions, in the way of emulate_mma.py: buffers between pages that
fault, NaNs (for i8, bytes that would spoil the sums) in all padding, results compared bit by bit.
"""
import re
import subprocess

from emulate_mma import Case, Suite, run_cases
from floats import SIZE

LANES, MATRIX = "lanes", "matrix"
# The types of each form.
TYPES = {"gfx90a": {LANES: ("f32", "f16", "bf16", "i8"), MATRIX: ("f32", "f16", "bf16", "i8")},
         "gfx942": {LANES: ("f32", "f16", "bf16", "i8"), MATRIX: ("f32", "f16", "bf16", "i8")},
         "gfx950": {LANES: ("f32", "f16", "bf16", "i8"), MATRIX: ("f32", "f16", "bf16", "i8", "f8e4m3", "f8e5m2")},
         "gfx1100": {LANES: ("f32", "f16", "bf16", "i8"), MATRIX: ("f16", "bf16", "i8")},
         "gfx1201": {LANES: ("f32", "f16", "bf16", "i8"), MATRIX: ("f16", "bf16", "i8", "f8e4m3", "f8e5m2")}}
TYPES["gfx1200"] = TYPES["gfx1201"]  # same instruction set


class SkinnySuite(Suite):
    def rank(self, arguments, family, splits, tile):
        """The rank of a legal plan of the form; `tile` is the form and an index."""
        form, _, which = tile.partition(" ")
        key = (tuple(arguments), splits, form)
        if key not in self.ranks:
            text = subprocess.run([self.lathe, "explain", *arguments, "--facts", self.facts, "--target", self.arch,
                                   "--cache-dir", ""], capture_output=True, text=True, check=True).stdout
            found = {}
            for rank, plan in re.findall(rf"^ +(\d+) +\S+ [mun]?s +{family} +(tile .*)$", text, re.M):
                if ("splits" in plan) == (splits > 1) and ("swapped" in plan) == (form == MATRIX):
                    found.setdefault(plan, rank)
            self.ranks[key] = found
        found = self.ranks[key]
        if not found:
            raise RuntimeError("the form has no legal plan")
        plan = sorted(found)[int(which) % len(found)]
        self.tiles.add((f"{arguments[3]} {form}", plan))
        return found[plan]


def layout_cases(form, dtype, layout):
    """Cases for one layout of the weights."""
    size, rest = SIZE[dtype], 16 // SIZE[dtype]
    # All operands have the same padding, so that N and K both end within a vector if rows are aligned. For the form
    # "lanes" a unit is up to 512 elements along K: less than one unit, several rounds, and an end within a vector.
    case = {"dtype": dtype, "layout": layout, "family": "skinny"}
    along = 1100 if form == LANES and layout == "nt" else 300

    def padded(n, least_k, out=""):
        every = max(rest, 16 // SIZE[out or dtype])
        return (n, least_k + (n - least_k) % every), -n % every

    yield Case((1, *padded(1, 1)[0]), **case, tile=f"{form} 0", pad=rest - 1)
    yield Case((1, 48, along - along % rest), **case, tile=f"{form} 0")
    yield Case((2, 48, 2048), **case, tile=f"{form} 1")
    (n, k), pad = padded(37, along + 3)
    yield Case((3, n, k), **case, tile=f"{form} 2", pad=pad)
    (wide, deep), wide_pad = padded(37, 131, "f32")
    # Sixteen sums per row of bytes along N need more registers than there are, so use fewer rows.
    most = 4 if dtype == "i8" and layout == "nn" else 8
    yield Case((most, wide, deep), **case, tile=f"{form} 3", pad=wide_pad, out="f32",
               epilogue="alpha=2,beta=-0.5,bias,relu,residual")
    yield Case((most, 48, 80), **case, tile=f"{form} 2", batch=2, epilogue="alpha=0.5,residual")
    if form == MATRIX:
        yield Case((16, wide, deep), **case, tile=f"{form} 1", pad=wide_pad)
        yield Case((11, 64, 256), **case, tile=f"{form} 4", batch=3, broadcast_b=True)
    else:
        yield Case((5, 64, 256), **case, tile=f"{form} 5", batch=3, broadcast_b=True)
    # Splits with a ragged last one.
    yield Case((5, n, padded(n, 448)[0][1]), **case, tile=f"{form} 1", splits=3, pad=pad)
    if size > 1:
        yield Case((2, 24, 96 + 8), **case, tile=f"{form} 1", poison=True, epilogue="relu")
        yield Case((4, 32, 192), **case, tile=f"{form} 2", poison=True, splits=2)
        yield Case((4, 150 + -150 % rest, 72), **case, tile=f"{form} 0", argmax=True, poison=True)
        yield Case((7, 48, 264), **case, tile=f"{form} 3", argmax=True, epilogue="bias", out="f32")
    if dtype == "i8":
        yield Case((3, 48, 96), **case, tile=f"{form} 1", out="i32")


def cases(arch, full):
    for form, types in TYPES[arch].items():
        for dtype in types:
            for layout in ("nt", "nn") if form == LANES else ("nt",):
                yield from layout_cases(form, dtype, layout)
                for which in range(60 if full else 0):
                    yield Case((3, 48, 192), dtype, layout=layout, family="skinny", tile=f"{form} {which}")


if __name__ == "__main__":
    run_cases(__doc__, SkinnySuite, cases)
