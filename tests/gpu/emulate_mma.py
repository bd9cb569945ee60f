#!/usr/bin/env python3
"""Runs the matrix-instruction kernels for AMD GPUs in an emulator of their instructions and checks exact sums.

usage: emulate_mma.py LATHE FACTS ARCH ARGS_HEADER [--full] [SUBSTRING]
  LATHE is the lathe command, FACTS a facts file, ARCH for example gfx942, ARGS_HEADER src/core/args.h. Only cases whose
  name contains SUBSTRING run; --full runs every tile of the table for every type.
Needs an emulator (amd_emulator.py). Without it it says so and exits with 77, which CTest counts as skipped.

Buffers lie between pages that fault; padding holds NaNs (for i8, bytes that would spoil the sums). Operands are small
multiples of 1/8 or small integers, so f32 sums are exact in any order and results are compared bit by bit. For 8-bit
floats, every code that is a number is multiplied by 1, from both sides. Emulator (amd_matrix.py) and expectation
(floats.py) decode 8-bit floats by the same reading of the formats.
"""
import math
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass

import amd_emulator
from floats import SIZE, f8_numbers, pack, rounded, unpack
from launch import Artifact, GuardedMemory, argument_fields, say

SKIPPED = 77
UNTOUCHED = 0xA5
TYPES = {"gfx90a": ("f32", "f16", "bf16", "i8"),
         "gfx942": ("f32", "f16", "bf16", "i8", "f8e4m3", "f8e4m3fnuz", "f8e5m2fnuz"),
         "gfx950": ("f32", "f16", "bf16", "i8", "f8e4m3", "f8e5m2"), "gfx1100": ("f16", "bf16", "i8"),
         "gfx1201": ("f16", "bf16", "i8", "f8e4m3", "f8e5m2")}
TYPES["gfx1200"] = TYPES["gfx1201"]  # same instruction set


@dataclass
class Case:
    shape: tuple
    dtype: str
    out: str = ""  # "": same as dtype, f32 for bytes
    layout: str = "nt"
    batch: int = 1
    broadcast_b: bool = False
    epilogue: str = ""
    splits: int = 0
    tile: int = 0  # index of a legal plan of the family, modulo their number
    pad: int = 0   # elements between rows
    argmax: bool = False
    # Infinities where K ends in A and B (NaN if the type has none), a NaN in A, and a -0 in both.
    poison: bool = False
    codes: bool = False  # two matrices: all numbers of the type in A of the first, in B of the second; elsewhere 0 or 1
    family: str = "mma"  # or "mma32"

    def name(self):
        m, n, k = self.shape
        parts = [f"{self.family} {'matmul_argmax' if self.argmax else 'matmul'} {m}x{n}x{k} {self.dtype}-{self.out or '='}",
                 self.layout, f"tile {self.tile}"]
        for name in ("batch", "broadcast_b", "epilogue", "splits", "pad", "poison", "codes"):
            value = getattr(self, name)
            if value not in (0, "", False) and (name, value) != ("batch", 1):
                parts.append(f"{name}={value}")
        return " ".join(parts)


class Matrix:
    """A batch of stored matrices: `lines` rows of `line` elements, `ld` apart."""

    def __init__(self, rows, columns, batch, dtype, transposed, pad, rng, alignment, broadcast=False):
        self.dtype, self.transposed = dtype, transposed
        self.lines, line = (columns, rows) if transposed else (rows, columns)
        self.ld = line + pad
        self.stride = 0 if broadcast else self.lines * self.ld
        copies = 1 if broadcast else batch
        length = (copies - 1) * self.stride + (self.lines - 1) * self.ld + line
        self.flat = [101 if dtype == "i8" else 0 if dtype == "i32" else math.nan] * length
        for b in range(copies):
            for i in range(self.lines):
                at = b * self.stride + i * self.ld
                if dtype in ("i8", "i32"):
                    self.flat[at:at + line] = [rng.randrange(-9, 10) for _ in range(line)]
                else:
                    self.flat[at:at + line] = [rng.randrange(-8, 9) / 8 for _ in range(line)]
        self.alignment = alignment
        self.place()

    def place(self):
        data = pack(self.flat, self.dtype)
        self.memory = GuardedMemory(data, True, self.alignment)

    def at(self, b, i, j):
        return b * self.stride + (j * self.ld + i if self.transposed else i * self.ld + j)

    def get(self, b, i, j):
        return self.flat[self.at(b, i, j)]


class Suite:
    def __init__(self, lathe, facts, arch, args_header, emulator):
        self.lathe, self.facts, self.arch, self.emulator = lathe, facts, arch, emulator
        self.fields = argument_fields(args_header)
        self.artifacts, self.ranks, self.tiles = {}, {}, set()
        self.launches = 0

    def rank(self, arguments, family, splits, tile):
        """The rank of a legal plan of the family."""
        key = (tuple(arguments), family, splits)
        if key not in self.ranks:
            text = subprocess.run([self.lathe, "explain", *arguments, "--facts", self.facts, "--target", self.arch,
                                   "--cache-dir", ""], capture_output=True, text=True, check=True).stdout
            found = {}
            for rank, plan in re.findall(rf"^ +(\d+) +\S+ [mun]?s +{family} +(tile .*)$", text, re.M):
                if ("splits" in plan) == (splits > 1):
                    found[re.sub(r" +raster \d+", "", plan)] = rank
            self.ranks[key] = found
        found = self.ranks[key]
        if not found:
            raise RuntimeError("the family has no legal plan")
        plan = sorted(found)[tile % len(found)]
        self.tiles.add((arguments[3], f"{family} {plan}"))
        return found[plan]

    def artifact(self, c):
        m, n, k = c.shape
        arguments = ["matmul_argmax" if c.argmax else "matmul", f"{m}x{n}x{k}", "--dtype", c.dtype, "--layout", c.layout]
        if c.argmax:
            arguments += ["--values", "--index-dtype", "i32"] + (["--bias"] if c.epilogue else [])
            arguments += ["--logits-dtype", c.out] if c.out else []
        else:
            arguments += ["--batch", str(c.batch)]
            arguments += ["--out-dtype", c.out] if c.out else []
            arguments += ["--epilogue", c.epilogue] if c.epilogue else []
        arguments += ["--split-k", str(c.splits)] if c.splits else []
        arguments += ["--padding", str(c.pad)] if c.pad else []
        arguments += ["--candidate", self.rank(arguments, c.family, c.splits, c.tile)]
        key = tuple(arguments)
        if key not in self.artifacts:
            self.artifacts[key] = Artifact(self.lathe, self.facts, self.arch, arguments, self.emulator)
        return self.artifacts[key]

    def run(self, c):
        """Returns "" or what is wrong."""
        m, n, k = c.shape
        out = c.out or ("f32" if SIZE[c.dtype] == 1 else c.dtype)
        artifact = self.artifact(c)
        rng = random.Random(c.name())
        options = dict(part.partition("=")[::2] for part in c.epilogue.split(",") if part)
        alpha, beta = float(options.get("alpha", 1)), float(options.get("beta", 0))
        # The alignment of the rows of every operand; the kernel's name contains the class.
        alignment = 16 if "_a16" in artifact.recipe["steps"][0]["symbol"] else 1

        def matrix(rows, columns, dtype, transposed=False, pad=c.pad, batch=c.batch, broadcast=False):
            return Matrix(rows, columns, batch, dtype, transposed, pad, rng, alignment, broadcast)

        a = matrix(m, k, c.dtype, c.layout[0] == "t")
        b = matrix(k, n, c.dtype, c.layout[1] == "t", broadcast=c.broadcast_b)
        if c.poison:
            infinite = math.inf if c.dtype in ("f32", "f16", "bf16", "f8e5m2") else math.nan
            a.flat[a.at(0, 0, 0)], a.flat[a.at(0, m - 1, k - 1)] = math.nan, infinite
            b.flat[b.at(0, k - 1, 0)] = -infinite
            if not c.dtype.endswith("fnuz"):
                a.flat[a.at(0, 1, 0)] = b.flat[b.at(0, 0, 1)] = -0.0
            a.place(), b.place()
        if c.codes:
            self.fill_codes(c, a, b)
        cin = matrix(m, n, out) if beta else None
        residual = matrix(m, n, out) if "residual" in options else None
        bias = matrix(1, n, out, pad=0, batch=1) if "bias" in options else None
        splits, chunk = artifact.split(k, max(c.splits, 1))
        variables = {"m": m, "n": n, "k": k, "batch": c.batch, "splits": splits, "merge": int(splits > 1)}
        values = {"a": a.memory.address, "b": b.memory.address, "lda": a.ld, "ldb": b.ld, "stride_a": a.stride,
                  "stride_b": b.stride, "m": m, "n": n, "k": k, "batch": c.batch, "splits": splits, "k_chunk": chunk,
                  "alpha": alpha, "beta": beta}
        workspace = artifact.workspace(variables)
        if workspace.bytes:
            values["workspace"] = workspace.address
        for name, ld, stride, x in (("c", "ldc", "stride_c", cin), ("residual", "ldr", "stride_r", residual)):
            if x:
                values |= {name: x.memory.address, ld: x.ld, stride: x.stride}
        if bias:
            values["bias"] = bias.memory.address

        def result(z, i, j):
            x = alpha * sum(a.get(z, i, p) * b.get(z, p, j) for p in range(k))
            x += beta * cin.get(z, i, j) if cin else 0
            x += bias.get(0, 0, j) if bias else 0
            x = max(x, 0.0) if "relu" in options else x
            x += residual.get(z, i, j) if residual else 0
            return rounded([int(x) if out == "i32" else x], out)[0]

        if c.argmax:
            return self.check_argmax(c, artifact, values, variables, result)
        return self.check_product(c, artifact, values, variables, result, matrix(m, n, out), out)

    @staticmethod
    def fill_codes(c, a, b):
        """Makes each sum one number of the type: the other matrix has one 1 per column of B or row of A."""
        m, n, k = c.shape
        numbers = f8_numbers(c.dtype)
        for p in range(k):
            for i in range(m):
                a.flat[a.at(0, i, p)] = numbers[(i * (k + 1) + p) % len(numbers)]
                a.flat[a.at(1, i, p)] = float(p == (7 * i + 3) % k)
            for j in range(n):
                b.flat[b.at(0, p, j)] = float(p == (7 * j + 3) % k)
                b.flat[b.at(1, p, j)] = numbers[(j * (k + 1) + p) % len(numbers)]
        a.place(), b.place()

    def check_product(self, c, artifact, values, variables, result, d, out):
        m, n, _ = c.shape
        size = SIZE[out]
        d.memory.write(bytes([UNTOUCHED]) * d.memory.bytes)
        values |= {"d": d.memory.address, "ldd": d.ld, "stride_d": d.stride}
        self.launches += artifact.launch(self.fields, values, variables)
        after, written = d.memory.read(), set()
        for z in range(c.batch):
            for i in range(m):
                for j in range(n):
                    at, want = d.at(z, i, j), result(z, i, j)
                    written.add(at)
                    got = unpack(after[at * size:(at + 1) * size], out)[0]
                    if got != want and not (got != got and want != want):
                        return f"D[{z}][{i}][{j}] = {got}, expected {want}"
        for at in range(len(after) // size):
            if at not in written and set(after[at * size:(at + 1) * size]) != {UNTOUCHED}:
                return f"element {at} outside D was written"
        return ""

    def check_argmax(self, c, artifact, values, variables, result):
        m, n, _ = c.shape
        indices, maxima = (GuardedMemory(bytes([UNTOUCHED]) * (4 * m)) for _ in range(2))
        values |= {"d": indices.address, "values": maxima.address}
        self.launches += artifact.launch(self.fields, values, variables)
        for i in range(m):
            row = [result(0, i, j) for j in range(n)]
            want = next((j for j, x in enumerate(row) if x != x), None)
            want = row.index(max(row)) if want is None else want
            got = unpack(indices.read()[4 * i:4 * i + 4], "i32")[0]
            value = unpack(maxima.read()[4 * i:4 * i + 4], "f32")[0]
            if got != want or (value != row[want] and row[want] == row[want]):
                return f"row {i}: {got} with {value}, expected {want} with {row[want]}"
        return ""


def cases(arch, full):
    for dtype in TYPES[arch]:
        yield from cases_of(dtype, full)
        if arch.startswith("gfx9"):
            yield from cases_of_32(dtype, full)


def cases_of_32(dtype, full):
    """Cases for what differs with this instruction: the fragments and the positions of the sums."""
    rest, floats = 16 // SIZE[dtype], dtype != "i8"
    yield Case((37, 2 * rest + 5, 45), dtype, pad=rest - 5 % rest, tile=1, family="mma32")
    yield Case((33, 70, 67), dtype, layout="tn", batch=2, tile=2, family="mma32")
    yield Case((35, 64, 272), dtype, splits=3, tile=0, out="f32", epilogue="alpha=2,beta=-0.5,bias,relu,residual",
               family="mma32")
    yield Case((40, 80, 64), dtype, poison=floats, tile=3, family="mma32")
    if SIZE[dtype] > 1:
        yield Case((37, 80, 72), dtype, argmax=True, tile=1, family="mma32")
    for tile in range(30 if full else 0):
        yield Case((130, 136, 72), dtype, tile=tile, family="mma32")


def cases_of(dtype, full):
    wide = SIZE[dtype] == 1
    rest = 16 // SIZE[dtype]
    # Aligned rows with a ragged end of K within a chunk; whole blocks; unaligned rows.
    yield Case((37, 2 * rest + 5, 40 + 5), dtype, pad=rest - 5 % rest, tile=1)
    yield Case((37, 69, 128), dtype, pad=0, tile=3, out="f32")
    yield Case((33, 64, 192), dtype, tile=5)
    yield Case((19, 35, 67), dtype, pad=1, tile=2)
    for i, layout in enumerate(("nn", "tn", "tt")):
        yield Case((37, 70, 45), dtype, layout=layout, batch=2, tile=i)
        yield Case((40, 64, 64), dtype, layout=layout, tile=4 + i)
    yield Case((1, 1, 1), dtype)
    yield Case((17, 64, 64), dtype, batch=3, broadcast_b=True, tile=7)
    # Splits of whole blocks.
    for i, layout in enumerate(("nt", "tt")):
        yield Case((9, 5 * rest, 256), dtype, layout=layout, splits=3, tile=i)
    # Splits with a ragged last one.
    yield Case((5, 67, 320), dtype, splits=3, tile=1)
    yield Case((35, 64, 272), dtype, splits=4, batch=2, tile=2, out="f32",
               epilogue="alpha=2,beta=-0.5,bias,relu,residual")
    yield Case((21, 40, 32), dtype, out="f16" if wide else "", epilogue="alpha=0.125,bias,residual", tile=6)
    if dtype != "i8":
        yield Case((11, 13, 21), dtype, poison=True, epilogue="relu")
        yield Case((11, 16, 128), dtype, poison=True, splits=2, tile=1)
    if wide:
        yield Case((40, 48, 96), dtype, out="bf16", epilogue="alpha=0.125,beta=1", tile=2)
    else:
        yield Case((11, 80, 64), dtype, argmax=True, poison=True)
        for n, tile in ((40, 0), (150, 1), (150, 6)):
            yield Case((37, n, 72), dtype, argmax=True, tile=tile)
        yield Case((20, 70, 33), dtype, argmax=True, epilogue="bias", out="f32", tile=3)
    if dtype.startswith("f8"):
        for layout in ("nt", "tn"):
            yield Case((37, 80, 128), dtype, layout=layout, batch=2, codes=True, tile=2)
    if dtype == "i8":
        yield Case((30, 50, 100), dtype, out="i32", tile=1)
    for tile in range(60 if full else 0):
        yield Case((130, 136, 72), dtype, tile=tile)
    # The largest tiles.
    yield Case((130, 136, 72), dtype, tile=13)


def run_cases(usage, suite_of, cases):
    """The command line of `usage`: suite_of() makes a suite that runs the cases of cases(arch, full)."""
    arguments = [a for a in sys.argv[1:] if a != "--full"]
    if len(arguments) < 4:
        raise SystemExit(usage)
    if cause := amd_emulator.missing():
        say(f"SKIPPED: {cause}; the kernels were not run")
        sys.exit(SKIPPED)
    suite = suite_of(*arguments[:4], amd_emulator.load())
    wanted = arguments[4] if len(arguments) > 4 else ""
    right, wrong = 0, 0
    for case in cases(arguments[2], "--full" in sys.argv):
        if wanted not in case.name():
            continue
        start = time.time()
        try:
            problem = suite.run(case)
        except RuntimeError as error:
            problem = str(error)
        right, wrong = right + (not problem), wrong + bool(problem)
        say(f"{case.name()} ... {problem or 'right'} ({time.time() - start:.1f} s)")
    for dtype, tile in sorted(suite.tiles):
        say(f"{dtype} {tile}")
    say(f"{right} cases right, {wrong} wrong, {suite.launches} kernel launches, {len(suite.artifacts)} artifacts")
    sys.exit(1 if wrong or not right else 0)


if __name__ == "__main__":
    run_cases(__doc__, Suite, cases)
