#!/usr/bin/env python3
"""Lathe's f32 matmul on the CPU against IREE's compiled one (iree-base-compiler, iree-base-runtime), in one process.

    vs_iree.py liblathe.so [--shapes MxNxK,...] [--threads 1|2] [--seconds S] [--csv FILE]

IREE compiles each shape ahead of time for this processor, with static sizes; neither side packs weights. Both are called
in turns. Inputs are N(0, 1), the weights (N by K) rotate over four times 32 MiB, and both results are checked against
float64 first. A ratio is IREE's time over Lathe's per round; printed are the median and the quartiles.
"""
import argparse
import ctypes
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "cuda"))
from vs_torch import F32, Lathe  # the C API's structs

PRODUCT = """
func.func @product(%a: tensor<{m}x{k}xf32>, %b: tensor<{n}x{k}xf32>) -> tensor<{m}x{n}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{m}x{n}xf32>
  %fill = linalg.fill ins(%zero : f32) outs(%empty : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %d = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
                                      affine_map<(m, n, k) -> (m, n)>]
    ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{n}x{k}xf32>) outs(%fill : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %d : tensor<{m}x{n}xf32>
}}
"""
ROTATED_BYTES = 4 * (32 << 20)


def iree_product(m, n, k, driver):
    import iree.compiler as compiler
    import iree.runtime as runtime

    binary = compiler.compile_str(
        PRODUCT.format(m=m, n=n, k=k), target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"])
    return runtime.load_vm_flatbuffer(binary, driver=driver).product


def is_right(np, engine, d, a, b):
    """Compares 64 elements with float64, within the rounding error of K products."""
    m, n = d.shape
    for i, j in zip(engine.integers(0, m, 64), engine.integers(0, n, 64)):
        products = a[i].astype("f8") * b[j].astype("f8")
        bound = 6 * (len(products) + 4) ** 0.5 * 2.0**-24 * abs(products).sum()
        if not abs(d[i, j] - products.sum()) <= bound:
            return False
    return True


def contest(seconds, ours, theirs):
    """Median seconds of both sides, and the quartiles of their ratio."""
    rounds, end, turn = [[], []], time.perf_counter() + seconds, 0
    while time.perf_counter() < end or turn < 7:
        for side in ((0, 1), (1, 0))[turn % 2]:
            call = (ours, theirs)[side]
            time.sleep(0.03 if turn < 2 else 0)  # the other side's workers spin for a while
            call(turn)
            start = time.perf_counter()
            call(turn + 1)
            rounds[side].append(time.perf_counter() - start)
        turn += 1
    return [statistics.median(r) for r in rounds], statistics.quantiles([t / o for o, t in zip(*rounds)], n=4)


def measure(lathe, driver, seconds, m, n, k):
    import iree.runtime as runtime
    import numpy as np

    engine = np.random.default_rng()
    a = engine.standard_normal((m, k), dtype="f4")
    weights = [engine.standard_normal((n, k), dtype="f4") for _ in range(ROTATED_BYTES // (4 * n * k) + 1)]
    d = np.full((m, n), np.nan, dtype="f4")
    product, device = iree_product(m, n, k, driver), runtime.get_device(driver)
    theirs_a, theirs_b = runtime.asdevicearray(device, a), [runtime.asdevicearray(device, w) for w in weights]

    def ours(i):
        lathe.matmul(None, a.ctypes.data, weights[i % len(weights)].ctypes.data, d.ctypes.data, m, n, k, F32)

    def theirs(i):
        return product(theirs_a, theirs_b[i % len(weights)])

    ours(0)
    if not is_right(np, engine, d, a, weights[0]):
        sys.exit(f"Lathe's result is wrong: M={m} N={n} K={k}")
    if not is_right(np, engine, theirs(0).to_host(), a, weights[0]):
        sys.exit(f"IREE's result is wrong: M={m} N={n} K={k}")
    return contest(seconds, ours, theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", help="liblathe.so")
    parser.add_argument("--shapes", default="1x4096x4096,4x4096x4096,16x4096x4096,64x4096x4096,512x4096x4096")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--csv")
    options = parser.parse_args()
    os.environ["LATHE_WORKERS"] = str(options.threads)
    lathe = Lathe(options.lathe, "cpu")
    # local-task uses one worker per core by default.
    driver = "local-sync" if options.threads == 1 else "local-task"
    rows = ["m,n,k,threads,lathe_us,iree_us,ratio,low,high"]
    print("| M x N x K | lathe us | IREE us | IREE over lathe | quartiles |\n| --- | --- | --- | --- | --- |")
    ratios = []
    for shape in options.shapes.split(","):
        m, n, k = map(int, shape.split("x"))
        (ours, theirs), (low, ratio, high) = measure(lathe, driver, options.seconds, m, n, k)
        ratios.append(ratio)
        rows.append(f"{m},{n},{k},{options.threads},{ours * 1e6:.1f},{theirs * 1e6:.1f},{ratio:.3f},{low:.3f},{high:.3f}")
        print(f"| {shape} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {ratio:.2f}x | {low:.2f}..{high:.2f} |", flush=True)
    print(f"{options.threads} thread(s): {statistics.geometric_mean(ratios):.2f}x IREE (geometric mean), "
          f"worst {min(ratios):.2f}x")
    if options.csv:
        with open(options.csv, "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
