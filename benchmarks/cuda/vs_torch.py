#!/usr/bin/env python3
"""Lathe's argmax, and matmul with argmax (a language model's head), against PyTorch on a CUDA device, in one process.

    vs_torch.py liblathe.so [--csv FILE] [--seconds S] [--deadline S]

Both sides are captured into CUDA graphs and replayed in turns. Inputs are N(0, 1) and rotate over four times the L2.
Results are checked against PyTorch in float64 first. The head is compared with PyTorch's matmul followed by its argmax.
A ratio is PyTorch's time over Lathe's per round; printed are the median and the quartiles. A wrong or failed result is
marked in its row and sets the exit status. --self-test only tests the bindings, on the CPU and without PyTorch.
"""
import argparse
import ctypes
import statistics
import sys
import time

F32, F16, BF16, I32, I64 = 1, 2, 3, 4, 5
COLUMN_MAJOR = 1
Pointer, Size, Int, Long, Unsigned, Float = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64,
                                             ctypes.c_uint32, ctypes.c_float)


class Operand(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("next", Pointer), ("data", Pointer), ("dtype", Int), ("layout", Int),
                ("leading_dimension", Long), ("batch_stride", Long), ("scale", Pointer), ("zero_point", Pointer),
                ("packed_layout", Unsigned), ("reserved", Unsigned)]

    def __init__(self, data=None, dtype=0, layout=0):
        super().__init__(struct_size=ctypes.sizeof(Operand), data=data, dtype=dtype, layout=layout)


class ArgmaxDesc(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("next", Pointer), ("rows", Long), ("n", Long), ("x", Operand),
                ("indices", Pointer), ("index_dtype", Int), ("index_offset", Long), ("values", Pointer),
                ("determinism", Int), ("miss_policy", Int), ("dependent_launch", Int)]


class Epilogue(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("next", Pointer), ("alpha", Float), ("beta", Float), ("bias", Pointer),
                ("bias_dtype", Int), ("activation", Int), ("residual", Operand), ("alpha_device", Pointer),
                ("beta_device", Pointer), ("combine", Int), ("reserved", Unsigned)]


class MatmulDesc(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("next", Pointer), ("m", Long), ("n", Long), ("k", Long), ("batch", Long),
                ("a", Operand), ("b", Operand), ("c", Operand), ("d", Operand), ("epilogue", Epilogue),
                ("determinism", Int), ("miss_policy", Int), ("m_device", Pointer), ("math", Int),
                ("dependent_launch", Int)]


class MatmulArgmaxDesc(ctypes.Structure):
    _fields_ = [("struct_size", Size), ("next", Pointer), ("m", Long), ("n", Long), ("k", Long), ("a", Operand),
                ("b", Operand), ("bias", Pointer), ("bias_dtype", Int), ("logits_dtype", Int), ("indices", Pointer),
                ("index_dtype", Int), ("index_offset", Long), ("values", Pointer), ("determinism", Int),
                ("miss_policy", Int), ("math", Int), ("dependent_launch", Int)]


class Lathe:
    """A device of the library, called through its C API."""

    def __init__(self, path, device):
        self.api = ctypes.CDLL(path)
        self.api.lathe_last_error.restype = ctypes.c_char_p
        self.context, self.device = Pointer(), Pointer()
        self.check(self.api.lathe_context_create(None, ctypes.byref(self.context)))
        self.check(self.api.lathe_device_open(self.context, device.encode(), ctypes.byref(self.device)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.api.lathe_last_error().decode())

    def argmax(self, stream, x, rows, n, dtype, indices):
        desc = ArgmaxDesc(ctypes.sizeof(ArgmaxDesc), None, rows, n, Operand(x, dtype), indices, I64, 0, None, 0, 0, 0)
        self.check(self.api.lathe_argmax(self.device, Pointer(stream), ctypes.byref(desc)))

    def matmul(self, stream, a, w, d, m, n, k, dtype):
        epilogue = Epilogue(ctypes.sizeof(Epilogue), None, 1.0, 0.0, None, 0, 0, Operand(), None, None)
        desc = MatmulDesc(ctypes.sizeof(MatmulDesc), None, m, n, k, 1, Operand(a, dtype),
                          Operand(w, dtype, COLUMN_MAJOR), Operand(), Operand(d, dtype), epilogue, 0, 0, None, 0, 0)
        self.check(self.api.lathe_matmul(self.device, Pointer(stream), ctypes.byref(desc)))

    def matmul_argmax(self, stream, a, w, indices, m, n, k, dtype):
        desc = MatmulArgmaxDesc(ctypes.sizeof(MatmulArgmaxDesc), None, m, n, k, Operand(a, dtype),
                                Operand(w, dtype, COLUMN_MAJOR), None, 0, dtype, indices, I64, 0, None, 0, 0, 0, 0)
        self.check(self.api.lathe_matmul_argmax(self.device, Pointer(stream), ctypes.byref(desc)))


def self_test(path):
    lathe = Lathe(path, "cpu")
    x = (ctypes.c_float * 6)(1, 5, 2, 7, 0, 7)
    indices = (ctypes.c_int64 * 2)(-1, -1)
    lathe.argmax(None, ctypes.addressof(x), 2, 3, F32, ctypes.addressof(indices))
    assert list(indices) == [1, 0], list(indices)
    weight, d = (ctypes.c_float * 3)(1, 2, 3), (ctypes.c_float * 2)()
    lathe.matmul(None, ctypes.addressof(x), ctypes.addressof(weight), ctypes.addressof(d), 2, 1, 3, F32)
    assert list(d) == [1 + 10 + 6, 7 + 21], list(d)
    rows = (ctypes.c_float * 6)(1, 0, 0, 1, -1, -1)  # W: (1, 5) has the logits 1, 5, -6 and (2, 7) has 2, 7, -9
    pairs = (ctypes.c_float * 4)(1, 5, 2, 7)
    lathe.matmul_argmax(None, ctypes.addressof(pairs), ctypes.addressof(rows), ctypes.addressof(indices), 2, 3, 2, F32)
    assert list(indices) == [1, 1], list(indices)
    print("bindings: right")


HEADER = ("what", "lathe us", "GB/s", "torch us", "vs torch", "quartiles")


class Bench:
    def __init__(self, torch, lathe, arguments):
        self.torch, self.lathe, self.seconds = torch, lathe, arguments.seconds
        self.rows, self.ratios, self.failed = [], {}, False
        self.l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.csv = open(arguments.csv, "w", encoding="utf-8") if arguments.csv else None
        self.write(HEADER)

    def write(self, row):
        if self.csv:
            print(",".join(row), file=self.csv, flush=True)

    def add(self, row):
        self.rows.append(row)
        self.write(row)
        print("  ".join(row), file=sys.stderr, flush=True)

    def measure(self, name, measure):
        """Calls `measure`, which adds a row; adds a row for its failure too."""
        try:
            measure()
        except ArithmeticError as error:
            self.failed = True
            self.add((name, "WRONG", "-", "-", str(error), "-"))
        except RuntimeError as error:
            self.failed = True
            print(f"{name}: {error}", file=sys.stderr)
            self.add((name, "REFUSED", "-", "-", "-", "-"))

    def graph(self, calls, call):
        """Captures call(0) to call(calls - 1) as a graph."""
        torch = self.torch
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call(0)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                call(i)
        return graph

    def seconds_of(self, graph, calls):
        begin, end = self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3 / calls

    def contest(self, group, name, bytes_a_call, copies, ours, theirs):
        calls = max(copies, 50)
        graphs = [self.graph(calls, ours), self.graph(calls, theirs)]
        for graph in graphs:
            self.seconds_of(graph, calls)
        once = sum(self.seconds_of(graph, calls) for graph in graphs) * calls
        rounds = [[], []]
        for turn in range(max(7, min(200, int(self.seconds / max(once, 1e-6))))):
            for side in ((0, 1), (1, 0))[turn % 2]:
                rounds[side].append(self.seconds_of(graphs[side], calls))
        ratio = statistics.quantiles([t / o for o, t in zip(*rounds)], n=4)
        us = [statistics.median(r) * 1e6 for r in rounds]
        self.ratios.setdefault(group, []).append(ratio[1])
        self.add((name, f"{us[0]:.2f}", f"{bytes_a_call / us[0] * 1e-3:.0f}", f"{us[1]:.2f}", f"{ratio[1]:.2f}x",
                  f"{ratio[0]:.2f}..{ratio[2]:.2f}"))

    def stream(self):
        return self.torch.cuda.current_stream().cuda_stream

    def argmax(self, name, dtype, kind, rows, n):
        torch = self.torch
        size = rows * n * torch.empty(0, dtype=dtype).element_size()
        copies = 4 * self.l2 // size + 1
        x = torch.randn(copies, rows, n, device="cuda", dtype=torch.float32).to(dtype)
        got = torch.full((rows,), -1, device="cuda", dtype=torch.int64)

        def ours(i):
            self.lathe.argmax(self.stream(), x[i % copies].data_ptr(), rows, n, kind, got.data_ptr())

        ours(0)
        torch.cuda.synchronize()
        # gather() with an index out of range would make the CUDA context unusable.
        picked = x[0].double().gather(1, got.clamp(0, n - 1)[:, None])[:, 0]
        if bool((got < 0).any()) or bool((got >= n).any()) or not torch.equal(picked, x[0].double().max(dim=1).values):
            raise ArithmeticError("not the maximum")
        group = "argmax, rows <= 32" if rows <= 32 else "argmax, rows 64 to 256"
        self.contest(group, f"argmax {name} {rows}x{n}", size, copies, ours, lambda i: torch.argmax(x[i % copies], dim=1))

    def head(self, m, n, k):
        torch = self.torch
        size = n * k * 2
        copies = 4 * self.l2 // size + 1
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        w = torch.randn(copies, n, k, device="cuda", dtype=torch.bfloat16)
        got = torch.full((m,), -1, device="cuda", dtype=torch.int64)

        def ours(i):
            self.lathe.matmul_argmax(self.stream(), a.data_ptr(), w[i % copies].data_ptr(), got.data_ptr(), m, n, k, BF16)

        ours(0)
        torch.cuda.synchronize()
        logits = torch.cat([a.double() @ part.double().T for part in w[0].split(16384)], dim=1)
        picked, best = logits.gather(1, got.clamp(0, n - 1)[:, None])[:, 0], logits.max(dim=1).values
        # Logits are rounded to bf16 before they are compared, so any that rounds to the maximum is right.
        if bool((got < 0).any()) or bool((got >= n).any()) or bool((best - picked > best.abs() * 2**-7).any()):
            raise ArithmeticError("not the greatest logit")
        self.contest("head", f"head {m}x{n}x{k}", size, copies, ours, lambda i: torch.argmax(a @ w[i % copies].T, dim=1))

    def report(self):
        """Prints the tables. True if every result was right and the measured figures reach their floor."""
        print("| " + " | ".join(HEADER) + " |\n|" + " --- |" * len(HEADER))
        for row in self.rows:
            print("| " + " | ".join(row) + " |")
        for group, ratios in self.ratios.items():
            print(f"{group}: {statistics.geometric_mean(ratios):.2f}x torch (geometric mean of {len(ratios)}, "
                  f"worst {min(ratios):.2f}x)")
        few = self.ratios.get("argmax, rows <= 32")
        met = bool(few) and statistics.geometric_mean(few) >= 2
        if few:
            print(f"argmax, rows <= 32, over torch.argmax: {statistics.geometric_mean(few):.2f}x, at least 2.00: "
                  f"{'met' if met else 'missed'}")
        return met and not self.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("liblathe")
    parser.add_argument("--csv", default="")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds for one figure")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="start no row after this many seconds")
    parser.add_argument("--short", action="store_true", help="only argmax of 1, 32, 256 rows of 128256 and one head")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test(arguments.liblathe)
    end = time.monotonic() + arguments.deadline
    import torch  # pylint: disable=import-outside-toplevel
    bench = Bench(torch, Lathe(arguments.liblathe, "cuda:0"), arguments)
    kinds = {"f32": (torch.float32, F32), "f16": (torch.float16, F16), "bf16": (torch.bfloat16, BF16)}
    # First the rows that have a floor, then the heads of llama3-8b and qwen3-8b.
    work = [(f"argmax {name} {rows}x{n}", lambda a=(name, *kinds[name], rows, n): bench.argmax(*a))
            for rows in (1, 8, 32, 2, 4, 16) for name in kinds for n in (32000, 128256, 151936, 201088)]
    work += [(f"head {m}x{n}x4096", lambda a=(m, n, 4096): bench.head(*a)) for m in (1, 8, 16) for n in (128256, 151936)]
    work += [(f"argmax {name} {rows}x{n}", lambda a=(name, *kinds[name], rows, n): bench.argmax(*a))
             for rows in (64, 128, 256) for name in kinds for n in (32000, 128256, 151936, 201088)]
    if arguments.short:
        wanted = [f"argmax {name} {rows}x128256" for name in kinds for rows in (1, 32, 256)]
        work = [one for one in work if one[0] in wanted or one[0].endswith("x128256x4096")]
    for done, (name, measure) in enumerate(work):
        if time.monotonic() >= end:
            print(f"{done} of {len(work)} rows measured")
            break
        bench.measure(name, measure)
    return 0 if bench.report() else 1


if __name__ == "__main__":
    sys.exit(main())
