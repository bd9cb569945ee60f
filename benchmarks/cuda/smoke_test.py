#!/usr/bin/env python3
"""lathe_cuda_bench on the emulated driver: what its rows say of answers that are good, bad, slow or missing.

    smoke_test.py lathe_cuda_bench EMULATOR_DIRECTORY STUB_DIRECTORY [--peer]

--peer: the program was built with cuBLASLt's header, and the stub of it can be told to misbehave.
"""
import csv
import os
import subprocess
import sys
import tempfile

program, emulator, stub = sys.argv[1:4]


def bench(directory, *flags, libraries=(emulator, stub), **environment):
    """One run's exit status, text and rows: {"matmul": [...], "argmax": [...]}."""
    env = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "LATHE_CACHE_DIR": directory + "/cache", **environment}
    for name in ("matmul", "argmax"):
        if os.path.exists(f"{directory}/cuda_{name}_bf16.csv"):
            os.remove(f"{directory}/cuda_{name}_bf16.csv")
    done = subprocess.run([program, "--smoke", "--csv", directory, *flags], env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200, check=False)
    rows = {}
    for name in ("matmul", "argmax"):
        path = f"{directory}/cuda_{name}_bf16.csv"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                rows[name] = list(csv.DictReader(file))
    print(done.returncode, done.stdout, sep="\n")
    return done.returncode, done.stdout, rows


def with_peer(directory):
    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="several")
    row, = rows["matmul"]
    assert status == 0 and row["algorithms"] == "4 (1 WRONG) (1 REFUSED)", row
    # The first answer is the fastest: no other takes its place.
    assert row["first us"] == row["best us"] and row["vs first"] == row["vs best"], row
    assert row["plan"] in ("simt", "mma", "wgmma", "skinny"), row

    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="slow_first")
    row, = rows["matmul"]
    assert status == 0 and float(row["first us"]) > float(row["best us"]) + 10e3, row

    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="fail")
    row, = rows["matmul"]
    assert status == 0 and row["first us"] == "REFUSED" and row["best us"] == "-", row
    assert float(row["lathe us"]) > 0, row

    status, text, rows = bench(directory, "--mode=matmul", libraries=(emulator,))
    assert status == 1 and "cublaslt" in text.lower() and "matmul" not in rows, text


def main():
    with tempfile.TemporaryDirectory() as directory:
        if "--peer" in sys.argv:
            with_peer(directory)
        status, text, rows = bench(directory, "--alone")
        assert status == 0 and float(rows["argmax"][0]["lathe us"]) > 0 and float(rows["matmul"][0]["lathe us"]) > 0, rows
        assert "first use p50: " in text and "cached call over a bare launch: " in text, text
        # Lathe's own failures are rows, too, and the exit status.
        status, _, rows = bench(directory, "--alone", "--mode=argmax,matmul", LATHE_CACHE_DIR=directory + "/empty",
                                LATHE_COMPILER_LIBRARY=directory + "/none.so")
        assert status == 1 and [rows[name][0]["lathe us"] for name in ("argmax", "matmul")] == ["REFUSED"] * 2, rows
        status, text, rows = bench(directory, "--alone", "--mode=matmul", "--deadline=0.000001")
        assert status == 0 and rows["matmul"] == [] and "0 of 1 rows measured" in text, text


if __name__ == "__main__":
    main()
