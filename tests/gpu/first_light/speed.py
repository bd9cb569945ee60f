"""The speed part: measured ceilings, first use, a cached call, matmul against cuBLASLt, argmax against PyTorch."""
import csv
import os
import subprocess
import sys
import time

import requests as asked
from watch import run_bench

KEPT = ("geometric mean", "first use", "cached call", "rows measured", "measured ceilings", ": met", ": missed", "oracle's choice",
        "not judged")


def bench_step(report, name, command, seconds):
    """Runs one program with its log and adds its most important lines to the summary."""
    path = os.path.join(report.work, name.replace(" ", "_") + ".log")
    with open(path, "wb") as log:
        try:
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            status = "out of time"
        except OSError as error:
            status = str(error)
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read().splitlines()
    report.say(f"{name}: {'passed' if status == 0 else f'status {status}'}")
    kept = [line for line in text if any(word in line for word in KEPT)]
    report.say("\n".join("  " + line[:200] for line in (kept or text[-3:])), 800)
    report.pack()


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return list(csv.DictReader(file))


def show_matmul(report, dtype):
    """One short line per problem: our time, the peer's, and those of our best candidates."""
    candidates, lines = {}, []
    for row in rows_of(os.path.join(report.work, f"cuda_candidates_{dtype}.csv")):
        candidates.setdefault((row["weight"], row["M"]), []).append(row)
    for row in rows_of(os.path.join(report.work, f"cuda_matmul_{dtype}.csv")):
        others = candidates.get((row["weight"], row["M"]), [])
        times = " ".join(f"{c['measured us'] if c['state'] == 'right' else c['state']}" for c in others)
        lines.append(f"  {row['weight']} M={row['M']}: {row['lathe us']} us {row['plan']} {row['of roofline']} "
                     f"first {row['vs first']} best {row['vs best']} [{times}]")
    report.say("\n".join(lines), 3300 if dtype == "bf16" else 900)


def matmul(report, bench, dtype, weights, m, seconds, smoke):
    path = os.path.join(report.work, f"weights_{dtype}.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write(weights)
    command = bench + ["--mode=matmul", f"--dtype={dtype}", f"--candidates={asked.CANDIDATES}",
                       "--roofline=" + os.path.join(report.work, f"roofline_{dtype}.svg")]
    if not smoke:
        command += [f"--shapes={path}", "--m=" + ",".join(map(str, m)), "--seconds=0.12", f"--ragged={'true' if dtype == 'bf16' else 'false'}"]
    kept = []

    def keep(line):
        log.write(line + "\n")
        if any(word in line for word in KEPT):
            kept.append(line)
    with open(os.path.join(report.work, f"matmul_{dtype}.log"), "w", encoding="utf-8") as log, \
            open(os.path.join(report.work, f"matmul_{dtype}.err"), "wb") as errors:
        lost = run_bench(command, {}, errors, time.monotonic() + seconds, 10 if not smoke else 100, keep)
    report.say(f"matmul {dtype} against cuBLASLt:")
    report.say("\n".join("  " + line[:260] for line in kept[-10:] + lost), 1200)
    show_matmul(report, dtype)
    report.pack()


def slow_weights(results):
    """The weights and M that were slower in a previous run than the peer's first choice."""
    rows = rows_of(os.path.join(results, "cuda_matmul_bf16.csv"))
    slow = [row for row in rows if not row["vs first"].rstrip("x").replace(".", "").isdigit() or float(row["vs first"].rstrip("x")) < 1]
    weights = {(row["weight"], row["N"], row["K"]) for row in slow if row["weight"] != "ragged"}
    text = "model,layer,n,k\n" + "".join(f"{w.replace('/', ',', 1) if '/' in w else 'x,' + w},{n},{k}\n" for w, n, k in sorted(weights))
    return (text, sorted({int(row["M"]) for row in slow})) if weights else ("", [])


def measure(report, pack, seconds, smoke, slow_in=""):
    end = time.monotonic() + seconds
    program = os.path.join(pack, "bin", "lathe_cuda_bench")
    bench = [program, "--csv", report.work]
    if smoke:
        bench.append("--smoke")

    def part(most, share):
        return max(3, min(most, (end - time.monotonic()) * share)) if not smoke else 100

    if slow_in:
        text, m = slow_weights(slow_in)
        if text:
            matmul(report, bench, "bf16", text, m, part(200, 0.7), smoke)
    else:
        bench_step(report, "startup", bench + ["--mode=startup", f"--deadline={part(15, 0.2):.0f}"], part(25, 0.3))
        matmul(report, bench, "bf16", asked.SPEED_WEIGHTS, asked.SPEED_M, part(75, 0.55), smoke)
    torch = [sys.executable, os.path.join(pack, "share", "bench", "vs_torch.py"), os.path.join(pack, "lib", "liblathe.so.0.1"),
             "--csv", os.path.join(report.work, "torch.csv"), "--seconds", "0.15"]
    if not smoke:
        seconds = part(40, 0.65)
        bench_step(report, "torch", torch + ["--short", "--deadline", f"{seconds - 6:.0f}"], seconds)
        rows = rows_of(os.path.join(report.work, "torch.csv"))
        report.say("\n".join("  " + "  ".join(row.values()) for row in rows), 900)
    if not slow_in and not smoke:
        matmul(report, bench, "f8_e4m3", asked.SPEED_WEIGHTS_BYTES, asked.SPEED_M, part(20, 0.6), smoke)
        matmul(report, bench, "i8", asked.SPEED_WEIGHTS_BYTES, asked.SPEED_M, part(15, 0.95), smoke)
