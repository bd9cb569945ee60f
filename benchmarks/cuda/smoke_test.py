#!/usr/bin/env python3
"""lathe_cuda_bench on the emulated driver: its rows for results that are right, wrong, slow or missing.

    smoke_test.py lathe_cuda_bench EMULATOR_DIRECTORY STUB_DIRECTORY [--peer]

--peer: the program was built with cuBLASLt's header; LATHE_STUB_BLASLT makes its stub misbehave.
"""
import csv
import os
import re
import subprocess
import sys
import tempfile

program, emulator, stub = sys.argv[1:4]


def bench(directory, *flags, libraries=(emulator, stub), **environment):
    """Runs it; returns exit status, output and rows: {"matmul": [...], "argmax": [...]}. Removes the CSV files of an
    earlier run first, except with --skip."""
    env = {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries), "LATHE_CACHE_DIR": directory + "/cache", **environment}
    dtype = next((flag.split("=")[1] for flag in flags if flag.startswith("--dtype=")), "bf16")
    tables = {name: f"{directory}/cuda_{name}_{dtype}.csv" for name in ("matmul", "argmax", "candidates")}
    for path in tables.values():
        if os.path.exists(path) and not any(flag.startswith("--skip") for flag in flags):
            os.remove(path)
    done = subprocess.run([program, "--smoke", "--csv", directory, *flags], env=env, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200, check=False)
    rows = {}
    for name, path in tables.items():
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                rows[name] = list(csv.DictReader(file))
    print(done.returncode, done.stdout, sep="\n")
    return done.returncode, done.stdout, rows


def reports_peer_results(directory):
    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="several")
    row, = rows["matmul"]
    assert status == 0 and row["algorithms"] == "4 (1 WRONG) (1 REFUSED)", row
    # The first answer is the fastest, so it is also the best.
    assert row["first us"] == row["best us"] and row["vs first"] == row["vs best"], row
    assert row["plan"] in ("simt", "mma", "wgmma", "skinny"), row

    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="slow_first")
    row, = rows["matmul"]
    assert status == 0 and float(row["first us"]) > float(row["best us"]) + 10e3, row

    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="fail")
    row, = rows["matmul"]
    assert status == 0 and row["first us"] == "REFUSED" and row["best us"] == "-", row
    assert float(row["lathe us"]) > 0, row

    status, _, rows = bench(directory, "--mode=matmul", LATHE_STUB_BLASLT="none")
    row, = rows["matmul"]
    assert status == 0 and row["first us"] == "REFUSED" and row["algorithms"] == "0", row

    status, text, rows = bench(directory, "--mode=matmul", libraries=(emulator,))
    assert status == 1 and "cublaslt" in text.lower() and "matmul" not in rows, text


def reports_candidates(directory, *flags):
    status, text, rows = bench(directory, "--mode=matmul", "--candidates=3", *flags)
    assert status == 0 and "begin 0 smoke M=1 N=128 K=256\n" in text, text
    assert re.search(r"measured ceilings: read \d+ GB/s, copy \d+ GB/s, bf16 \d+ TFLOP/s", text), text
    # The choice is among the candidates that it is compared with.
    line = re.search(r"oracle's choice over its best candidate: (\S+) \(geometric mean of 1 rows\), "
                     r"worst (\S+) \(smoke M=1\)", text)
    assert line and line[1] == line[2] and 0 < float(line[1]) <= 1, text
    assert [row["rank"] for row in rows["candidates"]][:3] == ["1", "2", "3"], rows
    # The best candidate of each other family follows.
    assert {row["candidate"].split()[0] for row in rows["candidates"]} >= {"wgmma", "mma", "skinny"}, rows
    for row in rows["candidates"]:
        assert [row[name] for name in ("weight", "M", "N", "K", "state")] == ["smoke", "1", "128", "256", "right"], row
        assert float(row["predicted us"]) > 0 and float(row["measured us"]) > 0 and " tile " in row["candidate"], row
        assert f"  candidate rank {row['rank']}: {row['candidate']}\n" in text, row
    assert rows["candidates"][0]["measured us"] == rows["matmul"][0]["lathe us"], rows

    # --skip leaves out every problem and keeps the rows; a missing file gets its header.
    os.remove(f"{directory}/cuda_candidates_bf16.csv")
    status, text, after = bench(directory, "--mode=matmul", "--candidates=3", "--skip=1", *flags)
    assert status == 0 and "begin" not in text and after == {"matmul": rows["matmul"], "candidates": []}, after


def appends_with_skip(directory):
    shapes = directory + "/shapes.csv"
    with open(shapes, "w", encoding="utf-8") as file:
        file.write("a,x,64,64\n")
    few = ("--smoke=false", "--mode=matmul", "--alone", f"--shapes={shapes}", "--m=2,1", "--noragged", "--pool_mib=1",
           "--seconds=0.01")
    status, text, rows = bench(directory, *few)
    assert status == 0 and re.findall(r"^begin (\d+) .* M=(\d+)", text, re.M) == [("0", "2"), ("1", "1")], text
    status, text, after = bench(directory, *few, "--skip=1")
    assert status == 0 and re.findall(r"^begin (\d+) .* M=(\d+)", text, re.M) == [("1", "1")], text
    for name in ("matmul", "candidates"):
        assert after[name][:2] == rows[name] and [row["M"] for row in after[name]] == ["2", "1", "1"], after


def measures_one_byte_types(directory, *flags):
    for dtype in ("f8_e4m3", "i8"):
        status, text, rows = bench(directory, "--mode=matmul", f"--dtype={dtype}", "--candidates=2", *flags)
        row, = rows["matmul"]
        assert status == 0 and float(row["lathe us"]) > 0 and len(rows["candidates"]) >= 2, row
        assert f" {dtype} " in text.split("measured ceilings")[1].split("\n")[0], text
        if not flags:
            assert float(row["first us"]) > 0 and row["algorithms"] == "1", row
        # Weights and activations have one byte per element, D two or four.
        size = 128 * 256 + 256 + 128 * {"f8_e4m3": 2, "i8": 4}[dtype]
        assert abs(float(row["GB/s"]) - size / float(row["lathe us"]) * 1e-3) <= 0.51, row
    status, text, _ = bench(directory, "--dtype=i8")
    assert status == 2 and "--mode=matmul only" in text, text


def main():
    with tempfile.TemporaryDirectory() as directory:
        if "--peer" in sys.argv:
            reports_peer_results(directory)
        peerless = [] if "--peer" in sys.argv else ["--alone"]
        reports_candidates(directory, *peerless)
        measures_one_byte_types(directory, *peerless)
        appends_with_skip(directory)
        status, text, rows = bench(directory, "--alone")
        assert status == 0 and float(rows["argmax"][0]["lathe us"]) > 0 and float(rows["matmul"][0]["lathe us"]) > 0, rows
        assert "first use p50: " in text and "cached call over a bare launch: " in text, text
        # Failures of Lathe appear in the rows and in the exit status.
        status, _, rows = bench(directory, "--alone", "--mode=argmax,matmul", LATHE_CACHE_DIR=directory + "/empty",
                                LATHE_COMPILER_LIBRARY=directory + "/none.so")
        assert status == 1 and [rows[name][0]["lathe us"] for name in ("argmax", "matmul")] == ["REFUSED"] * 2, rows
        status, text, rows = bench(directory, "--alone", "--mode=matmul", "--deadline=0.000001")
        assert status == 0 and rows["matmul"] == [] and "0 of 1 rows measured" in text, text


if __name__ == "__main__":
    main()
