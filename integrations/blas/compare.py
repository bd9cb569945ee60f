"""Times `a @ b` of float32 in NumPy, with and without liblathe_blas.so, and prints a table (docs/blas.md).

usage: compare.py LIBLATHE_BLAS [--threads 1,2] [--rounds 5] [--small]

NumPy must use libblas.so.3, as Debian's does (python3-numpy and libopenblas0-pthread). Two processes, one of them with
the library preloaded, take turns. Kernels are compiled before the first round. A figure is the median over the rounds;
a round's figure is the best of its calls.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

SQUARES = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
OTHERS = [(4096, 64, 64), (8192, 256, 32), (64, 4096, 64), (32, 2048, 512), (16, 4096, 4096), (100, 1000, 777),
          (64, 64, 8192)]
VECTORS = [(1, 1024, 1024), (1, 4096, 4096), (4096, 1, 4096), (1000, 1, 300)]
SMALL = [(n, n, n) for n in (4, 8, 12, 16, 20, 24, 32, 48)] + [(1, n, n) for n in (16, 32, 64, 128, 256)]


def work():
    """The child: reads "m n k seconds" lines and answers each with the best time of a call."""
    import numpy as np

    kept = {}
    for line in sys.stdin:
        m, n, k = (int(x) for x in line.split()[:3])
        seconds = float(line.split()[3])
        if (m, n, k) not in kept:
            random = np.random.default_rng(1)
            a, b = (random.random(s, dtype=np.float32) for s in ((m, k), (k, n)))
            # NumPy calls sgemv for a product with a vector.
            kept[m, n, k] = (a[0] if m == 1 else a, b[:, 0].copy() if n == 1 else b)
        a, b = kept[m, n, k]
        best, end = float("inf"), time.perf_counter() + seconds
        repeats = max(1, int(2e-5 / max(1e-7, 2e-11 * m * n * k)))  # at least 20 us between two looks at the clock
        while best == float("inf") or time.perf_counter() < end:
            start = time.perf_counter()
            for _ in range(repeats):
                a @ b
            best = min(best, (time.perf_counter() - start) / repeats)
        print(best, flush=True)


class Child:
    def __init__(self, library, threads):
        environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads))
        if library:
            environment.update(LD_PRELOAD=library, LATHE_BLAS_MISS="block")
        self.process = subprocess.Popen([sys.executable, __file__, "--work"], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def time(self, shape, seconds):
        print(*shape, seconds, file=self.process.stdin, flush=True)
        best = float(self.process.stdout.readline())
        time.sleep(0.1)  # OpenBLAS' threads spin after a call, and would take the other process' processors
        return best


def compare(library, threads, shapes, rounds, seconds):
    alone, lathe = Child(None, threads), Child(library, threads)
    for shape in shapes:  # the first call of a shape compiles its kernel
        alone.time(shape, 0), lathe.time(shape, 0)
    print(f"\n{threads} thread{'s' if threads > 1 else ''}\n")
    print("| M x N x K | OpenBLAS us | Lathe us | ratio |\n| --- | --- | --- | --- |")
    ratios = []
    for shape in shapes:
        times = [(alone.time(shape, seconds), lathe.time(shape, seconds)) for _ in range(rounds)]
        ratio = statistics.median(a / b for a, b in times)
        ratios.append(ratio)
        one, other = (statistics.median(t[i] for t in times) * 1e6 for i in (0, 1))
        print(f"| {shape[0]} x {shape[1]} x {shape[2]} | {one:.3g} | {other:.3g} | {ratio:.2f} |", flush=True)
    print(f"\ngeometric mean {statistics.geometric_mean(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("drop_in", help="liblathe_blas.so")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each process in each round")
    parser.add_argument("--small", action="store_true", help="small products, all on Lathe, to choose LATHE_BLAS_SMALL")
    arguments = parser.parse_args()
    if arguments.small:
        os.environ["LATHE_BLAS_SMALL"] = "0"
    shapes = SMALL if arguments.small else SQUARES + OTHERS + VECTORS
    for threads in arguments.threads.split(","):
        compare(os.path.abspath(arguments.drop_in), int(threads), shapes, arguments.rounds, arguments.seconds)


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--work"] else main()
