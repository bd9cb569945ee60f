#!/usr/bin/env python3
"""Runs Lathe's kernels for AMD GPUs in an emulator of their instructions and compares the results with float64.

usage: emulate_amd.py LATHE FACTS ARCH ARGS_HEADER [SUBSTRING]
  LATHE is the lathe command, FACTS a facts file, ARCH for example gfx942, ARGS_HEADER src/core/args.h. Only cases whose
  name contains SUBSTRING run.
Needs an emulator (amd_emulator.py). Without it it says so and exits with 77, which CTest counts as skipped.

Every buffer lies between pages that fault; unused pointers of the argument block fault too. Inputs are multiples of
1/8, so f32 sums are exact and results are compared bit by bit, except after activations.

The emulator rounds the address of a 4-byte access down to a multiple of 4, unlike the hardware. LLVM merges accesses to
two neighbouring 2-byte elements into one. So rows of C, D and the residual have even distances if a thread has
neighbouring columns.
"""
import math
import random
import sys
import time
from dataclasses import dataclass, field

import amd_emulator
from floats import MANTISSA, SIZE, pack, rounded, unpack
from launch import Artifact, GuardedMemory, argument_fields, say

SKIPPED = 77
ACTIVATIONS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}
ACTIVATION_ERROR = 4e-6  # relative to 1 + |x|: the activations are f32 polynomials
UNTOUCHED = 0xA5


@dataclass
class Matmul:
    shape: tuple
    dtype: str = "f32"
    out: str = ""  # "": same as dtype
    layout: str = "nn"
    batch: int = 1
    broadcast_b: bool = False
    epilogue: str = ""  # as in the command: "alpha=2,beta=-0.5,bias,gelu,residual"
    splits: tuple = (0,)  # one launch for each number of splits; 0: a kernel without splits
    candidate: int = 0  # 0: the oracle's choice
    pad: int = 0  # added to the leading dimensions: pad, pad + 1, ... for a, b, c, d, r
    in_place: str = ""  # "c" or "residual": D is that operand
    poison: bool = False  # a NaN in A, and infinities where K ends in A and B

    def name(self):
        m, n, k = self.shape
        parts = [f"matmul {m}x{n}x{k} {self.dtype}-{self.out or self.dtype} {self.layout}"]
        parts += [f"batch={self.batch}"] if self.batch > 1 else []
        parts += ["b-broadcast"] if self.broadcast_b else []
        parts += [self.epilogue] if self.epilogue else []
        parts += [f"splits={self.splits}"] if self.splits != (0,) else []
        parts += [f"candidate={self.candidate}"] if self.candidate else []
        parts += [f"pad={self.pad}"] if self.pad else []
        parts += [f"d={self.in_place}"] if self.in_place else []
        parts += ["poison"] if self.poison else []
        return " ".join(parts)


@dataclass
class Argmax:
    rows: int
    n: int
    dtype: str = "f32"
    index: str = "i64"
    values: bool = True
    splits: int = 1
    pad: int = 0
    offset: int = 0
    special: list = field(default_factory=list)  # (row, column, value); column None: the whole row

    def name(self):
        return (f"argmax {self.rows}x{self.n} {self.dtype} {self.index} splits={self.splits} pad={self.pad} "
                f"offset={self.offset} values={self.values} special={len(self.special)}")


class Matrix:
    """A batch of stored matrices: rows x columns elements, stored as `lines` rows of `line` elements, `ld` apart."""

    def __init__(self, rows, columns, batch, dtype, transposed, pad, rng, broadcast=False, even=False,
                 fill=math.nan, alignment=1):
        self.rows, self.columns, self.dtype, self.transposed = rows, columns, dtype, transposed
        self.lines, line = (columns, rows) if transposed else (rows, columns)
        self.even, self.alignment = even, alignment
        self.ld = line + pad + (even and (line + pad) % 2)
        self.stride = 0 if broadcast else self.lines * self.ld + (8 if even else 7 if pad else 0)
        copies = 1 if broadcast else batch
        length = (copies - 1) * self.stride + (self.lines - 1) * self.ld + line
        flat = [fill] * length
        for b in range(copies):
            for i in range(self.lines):
                at = b * self.stride + i * self.ld
                flat[at:at + line] = [rng.randrange(-16, 17) / 8 for _ in range(line)]
        self.flat = rounded(flat, dtype)
        self.place(rng)

    def place(self, rng):
        at_end = rng.random() < 0.7 and not (self.even and len(self.flat) % 2)
        self.memory = GuardedMemory(pack(self.flat, self.dtype), at_end, self.alignment)

    def at(self, b, i, j):
        return b * self.stride + (j * self.ld + i if self.transposed else i * self.ld + j)

    def get(self, b, i, j):
        return self.flat[self.at(b, i, j)]


def options_of(epilogue):
    options = dict(part.partition("=")[::2] for part in epilogue.split(",") if part)
    activation = next((name for name in ACTIVATIONS if name in options), None)
    return float(options.get("alpha", 1)), float(options.get("beta", 0)), "bias" in options, activation, \
        "residual" in options


class Suite:
    def __init__(self, lathe, facts, arch, args_header, emulator):
        self.lathe, self.facts, self.arch, self.emulator = lathe, facts, arch, emulator
        self.fields = argument_fields(args_header)
        self.artifacts = {}
        self.launches = 0

    def artifact(self, arguments):
        key = tuple(arguments)
        if key not in self.artifacts:
            self.artifacts[key] = Artifact(self.lathe, self.facts, self.arch, arguments, self.emulator)
        return self.artifacts[key]

    def run(self, case):
        return self.matmul(case) if isinstance(case, Matmul) else self.argmax(case)

    # Returns "" or what is wrong.
    def matmul(self, c):
        m, n, k = c.shape
        out = c.out or c.dtype
        arguments = ["matmul", f"{m}x{n}x{k}", "--dtype", c.dtype, "--out-dtype", out, "--layout", c.layout,
                     "--split-k", str(max(max(c.splits), 1))]
        arguments += ["--epilogue", c.epilogue] if c.epilogue else []
        arguments += ["--candidate", str(c.candidate)] if c.candidate else []
        if c.pad:  # for the class of unaligned rows: the rows of A must not be multiples of 16 bytes
            line = m if c.layout[0] == "t" else k
            arguments += ["--padding", "1" if (line + 1) * SIZE[c.dtype] % 16 else "2"]
        artifact = self.artifact(arguments)
        aligned = {"alignment": artifact.alignment}
        rng = random.Random(c.name())
        alpha, beta, has_bias, activation, has_residual = options_of(c.epilogue)
        a = Matrix(m, k, c.batch, c.dtype, c.layout[0] == "t", c.pad, rng, **aligned)
        b = Matrix(k, n, c.batch, c.dtype, c.layout[1] == "t", c.pad and c.pad + 1, rng, c.broadcast_b, **aligned)
        if c.poison:
            a.flat[a.at(0, 0, 0)], a.flat[a.at(0, m - 1, k - 1)] = math.nan, math.inf
            b.flat[b.at(0, k - 1, 0)] = -math.inf
            a.place(rng), b.place(rng)
        even = SIZE[out] == 2 and artifact.config("register_n") > 1
        cin = Matrix(m, n, c.batch, out, False, c.pad and c.pad + 2, rng, even=even, **aligned) if beta else None
        residual = Matrix(m, n, c.batch, out, False, c.pad and c.pad + 4, rng, even=even, **aligned) if has_residual else None
        bias = Matrix(1, n, 1, out, False, 0, rng, even=even, **aligned) if has_bias else None
        products = [[[sum(a.get(z, i, p) * b.get(z, p, j) for p in range(k)) for j in range(n)] for i in range(m)]
                    for z in range(c.batch)]
        for wanted in c.splits:
            splits, chunk = artifact.split(k, max(wanted, 1))
            in_place = {"c": cin, "residual": residual}.get(c.in_place)
            d = in_place or Matrix(m, n, c.batch, out, False, c.pad and c.pad + 3, rng, even=even, **aligned)
            if in_place:
                d.place(rng)
            else:
                d.memory.write(bytes([UNTOUCHED]) * d.memory.bytes)
            before = d.memory.read()
            variables = {"m": m, "n": n, "k": k, "batch": c.batch, "splits": splits, "merge": int(splits > 1)}
            workspace = artifact.workspace(variables)
            values = {"a": a.memory.address, "b": b.memory.address, "d": d.memory.address, "lda": a.ld, "ldb": b.ld,
                      "ldd": d.ld, "stride_a": a.stride, "stride_b": b.stride, "stride_d": d.stride, "m": m, "n": n,
                      "k": k, "batch": c.batch, "splits": splits, "k_chunk": chunk, "alpha": alpha, "beta": beta}
            if workspace.bytes:
                values["workspace"] = workspace.address
            for name, ld, stride, x in (("c", "ldc", "stride_c", cin), ("residual", "ldr", "stride_r", residual)):
                if x:
                    values |= {name: x.memory.address, ld: x.ld, stride: x.stride}
            if bias:
                values["bias"] = bias.memory.address
            self.launches += artifact.launch(self.fields, values, variables)
            after, size = d.memory.read(), SIZE[out]
            written = set()
            for z in range(c.batch):
                for i in range(m):
                    for j in range(n):
                        x = alpha * products[z][i][j]
                        x += beta * cin.get(z, i, j) if cin else 0
                        x += bias.get(0, 0, j) if bias else 0
                        y = ACTIVATIONS[activation](x) if activation else x
                        y += residual.get(z, i, j) if residual else 0
                        at = d.at(z, i, j)
                        written.add(at)
                        got = unpack(after[at * size:(at + 1) * size], out)[0]
                        want = rounded([y], out)[0]
                        slack = 0.0
                        if activation and activation != "relu":
                            slack = ACTIVATION_ERROR * (1 + abs(x)) + abs(y) * 2.0**-(MANTISSA[out] - 1)
                        if got != want and not abs(got - want) <= slack and not (got != got and want != want):
                            return f"splits={splits} D[{z}][{i}][{j}] = {got}, expected {want}"
            for at in range(len(after) // size):
                if at not in written and after[at * size:(at + 1) * size] != before[at * size:(at + 1) * size]:
                    return f"splits={splits} element {at} outside D was written"
        return ""

    def argmax(self, c):
        arguments = ["argmax", f"{c.rows}x{c.n}", "--dtype", c.dtype, "--index-dtype", c.index]
        arguments += ["--values"] if c.values else []
        arguments += ["--split-k", str(c.splits)] if c.splits > 1 else []
        arguments += ["--padding", "1" if (c.n + 1) * SIZE[c.dtype] % 16 else "2"] if c.pad else []
        artifact = self.artifact(arguments)
        rng = random.Random(c.name())
        x = Matrix(c.rows, c.n, 1, c.dtype, False, c.pad, rng, fill=math.inf, alignment=artifact.alignment)
        for row, column, value in c.special:
            for j in range(c.n) if column is None else [column]:
                x.flat[x.at(0, row, j)] = value
        x.place(rng)
        splits, chunk = artifact.split(c.n, c.splits, c.rows)
        variables = {"m": c.rows, "n": c.n, "k": c.n, "batch": 1, "splits": splits, "merge": int(splits > 1)}
        indices = GuardedMemory(bytes([UNTOUCHED]) * (c.rows * SIZE[c.index]))
        maxima = GuardedMemory(bytes([UNTOUCHED]) * (c.rows * 4))
        workspace = artifact.workspace(variables)
        values = {"a": x.memory.address, "d": indices.address, "lda": x.ld, "m": c.rows, "n": c.n, "batch": 1,
                  "splits": splits, "k_chunk": chunk, "index_offset": c.offset}
        if c.values:
            values["values"] = maxima.address
        if workspace.bytes:
            values["workspace"] = workspace.address
        self.launches += artifact.launch(self.fields, values, variables)
        got = unpack(indices.read(), c.index)
        for i in range(c.rows):
            row = [x.get(0, i, j) for j in range(c.n)]
            best = next((j for j, v in enumerate(row) if math.isnan(v)), None)
            if best is None:
                best = row.index(max(row))
            if got[i] != best + c.offset:
                return f"row {i}: index {got[i]}, expected {best + c.offset}"
            if c.values:
                value = unpack(maxima.read()[4 * i:4 * i + 4], "f32")[0]
                if value != row[best] and not (math.isnan(value) and math.isnan(row[best])):
                    return f"row {i}: value {value}, expected {row[best]}"
        return ""


def random_matmuls(count):
    rng = random.Random(20)
    for _ in range(count):
        parts = [f"alpha={rng.choice((0.5, 2, -1))}", f"beta={rng.choice((0.25, -2))}"][rng.randrange(3):]
        parts += [part for part in ("bias", "relu", "residual") if rng.randrange(2)]
        splits = rng.choice(((0,), (0,), (2,), (5, 3), (9,)))
        yield Matmul(tuple(rng.randrange(1, 71) for _ in range(3)), rng.choice(("f32", "f16", "bf16")),
                     rng.choice(("f32", "f16", "bf16")), rng.choice(("nn", "nt", "tn", "tt")), rng.randrange(1, 4),
                     rng.randrange(4) == 0, ",".join(parts), splits, 0 if splits != (0,) else rng.randrange(1, 15),
                     rng.randrange(6))


def cases():
    inf, nan = math.inf, math.nan
    # Every dtype and layout with odd shapes, packed and with wider rows.
    for dtype in ("f32", "f16", "bf16"):
        for layout in ("nn", "nt", "tn", "tt"):
            yield Matmul((7, 33, 19), dtype, layout=layout)
            yield Matmul((37, 70, 45), dtype, layout=layout, pad=3, batch=2)
        yield Matmul((1, 1, 1), dtype, layout="nt")
        yield Matmul((1, 70, 64), dtype, layout="nt")
        yield Matmul((70, 1, 3), dtype, layout="nn")
        yield Matmul((17, 5, 70), dtype, layout="tn", broadcast_b=True, batch=3)
        yield Matmul((5, 67, 70), dtype, layout="nt", splits=(7, 2, 1, 70), pad=1)
        yield Matmul((33, 35, 67), dtype, layout="tt", splits=(3, 5), batch=2,
                     epilogue="alpha=2,beta=-0.5,bias,relu,residual")
    poisoned = (("f32", "nn", (0,)), ("f32", "tt", (3,)), ("f16", "nt", (0,)), ("bf16", "tn", (2,)))
    for dtype, layout, splits in poisoned:
        yield Matmul((11, 13, 21), dtype, layout=layout, splits=splits, poison=True, epilogue="relu")
    yield from random_matmuls(24)
    # A long reduction with uneven splits: 517 = 7 * 74 - 1.
    yield Matmul((3, 40, 517), layout="nt", splits=(7, 6, 8))
    yield Matmul((16, 24, 300), "bf16", layout="nn", splits=(4,))
    # Output dtypes that differ from the input dtype.
    yield Matmul((9, 31, 20), "f32", out="bf16", layout="nt")
    yield Matmul((9, 31, 20), "f16", out="f32", layout="nn")
    yield Matmul((9, 31, 20), "bf16", out="f16", layout="tn", epilogue="bias")
    # Epilogues.
    for epilogue in ("alpha=0.25", "beta=2", "bias", "residual", "relu", "gelu", "gelu_tanh", "silu",
                     "alpha=0.5,beta=-1,bias,silu,residual"):
        yield Matmul((21, 39, 12), layout="nt", epilogue=epilogue)
    yield Matmul((10, 70, 33), "f16", layout="nt", epilogue="alpha=0.125,bias,gelu,residual", pad=5)
    yield Matmul((10, 70, 33), "bf16", layout="nt", epilogue="alpha=0.125,bias,gelu_tanh", splits=(2,))
    yield Matmul((21, 39, 12), layout="nn", epilogue="beta=0.5", in_place="c", pad=2)
    yield Matmul((21, 39, 12), "f16", layout="nn", epilogue="residual,bias", in_place="residual", splits=(3,))
    yield Matmul((36, 30, 16), out="bf16", layout="tt", batch=2, pad=1, candidate=13)
    yield Matmul((36, 31, 16), "f16", layout="nt", candidate=11, epilogue="bias,residual,beta=1")
    # Every candidate of the table, including tiles much larger than the shape.
    for candidate in range(1, 40):
        yield Matmul((37, 70, 41), layout="nt", candidate=candidate)
    for dtype, index in (("f32", "i64"), ("f16", "i32"), ("bf16", "i64")):
        yield Argmax(1, 1, dtype, index)
        yield Argmax(3, 7, dtype, index, pad=2, special=[(0, 6, 9.0), (1, None, -inf), (2, 3, nan)])
        yield Argmax(4, 257, dtype, index, values=False, offset=1000,
                     special=[(0, 256, inf), (1, 100, 5.0), (1, 200, 5.0), (2, 200, nan), (2, 30, nan), (2, 10, inf)])
        yield Argmax(2, 1000, dtype, index, special=[(0, 999, 3.0), (1, None, nan)])
        # A split has at least some thousand columns.
        for n, splits in ((1531, 1), (40009, 2), (40009, 35)):
            yield Argmax(5, n, dtype, index, splits=splits, pad=5, offset=-3 if index == "i32" else 0,
                         special=[(0, None, -inf), (1, n - 1, 4.0), (2, n // 2, 4.0), (2, n - 99, 4.0),
                                  (3, n - 300, nan), (3, n // 3, nan), (3, 5, inf), (4, None, 2.0)])


def case_of_rank(case):
    return getattr(case, "candidate", 0)


def main():
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    if cause := amd_emulator.missing():
        say(f"SKIPPED: {cause}; the kernels were not run")
        sys.exit(SKIPPED)
    suite = Suite(*sys.argv[1:5], amd_emulator.load())
    wanted = sys.argv[5] if len(sys.argv) > 5 else ""
    right, wrong, candidates = 0, 0, math.inf
    for case in cases():
        if wanted not in case.name() or case_of_rank(case) > candidates:
            continue
        print(case.name(), end=" ... ", flush=True)
        start = time.time()
        try:
            problem = suite.run(case)
        except RuntimeError as error:
            # The number of candidates is not known beforehand: the first rank beyond the table ends the loop.
            if case_of_rank(case) and "is not legal here" in str(error):
                say(f"not legal{str(error).partition('is not legal here')[2]}")
                continue
            if case_of_rank(case) and f"candidate {case.candidate} " in str(error):
                candidates = case.candidate - 1
                say(f"there are {candidates} candidates")
                continue
            problem = str(error)
        right, wrong = right + (not problem), wrong + bool(problem)
        say(f"{problem or 'right'} ({time.time() - start:.1f} s)")
    say(f"{right} cases right, {wrong} wrong, {suite.launches} kernel launches, {len(suite.artifacts)} artifacts")
    sys.exit(1 if wrong or not right else 0)


if __name__ == "__main__":
    main()
