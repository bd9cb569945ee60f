"""Compares llama.cpp alone with llama.cpp and this backend.

usage: compare.py speed BIN BACKEND MODEL...            tokens per second of prompts and generation
       compare.py sequences BIN BACKEND MODEL...        the same with 1, 4 and 16 sequences at once
       compare.py operations BIN BACKEND FORMAT...      GFLOP/s of MUL_MAT in test-backend-ops
       compare.py text BIN BACKEND TEXT MODEL...        perplexity of a text
       compare.py reference BIN BACKEND TEXT MODEL...   the distance of both from exact arithmetic
       compare.py greedy TOOL BACKEND TEXT MODEL...     200 tokens after each prompt
BIN is the folder of llama.cpp's tools, TOOL is tests/greedy.cc. Both sides run in turns; a speed is the best of the
rounds. Variables: LATHE_ROUNDS: how many (default: 3). LATHE_THREADS: numbers of threads (default: 1,2). LATHE_TESTS:
tests of `speed` (default: pp512,pp2048,tg128). LATHE_CHUNKS: pieces of 512 tokens of the text (default: 16).
LATHE_PROMPTS: prompts of `greedy` (default: 10). LATHE_CSV: a file to which the rows of the tables are appended.
LATHE_CPU_TIME=1: seconds are CPU time, which other processes hardly change; for one thread only.
"""
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LARGEST_DIFFERENCE = 0.001  # of the perplexity
SIDES = ("alone", "Lathe")
ROUNDS = int(os.environ.get("LATHE_ROUNDS", "3"))
THREADS = [int(text) for text in os.environ.get("LATHE_THREADS", "1,2").split(",")]
CPU_TIME = os.environ.get("LATHE_CPU_TIME", "0") != "0"
PROMPTS = int(os.environ.get("LATHE_PROMPTS", "10"))
CHUNKS = int(os.environ.get("LATHE_CHUNKS", "16"))
TESTS = os.environ.get("LATHE_TESTS", "pp512,pp2048,tg128").split(",")
# Loads backends in tools that do so only if an option names devices or buffers.
LOAD_BACKENDS = ("-ot", "none=CPU")


def run(side, backend, *command):
    environment = dict(os.environ)
    environment.pop("GGML_BACKEND_PATH", None)
    if side == "Lathe":
        environment["GGML_BACKEND_PATH"] = backend
    if CPU_TIME:
        environment["LD_PRELOAD"] = str(pathlib.Path(backend).with_name("libcpu_clock.so"))
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
                          errors="replace")
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ({side}) ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr


class Table:
    """Prints Markdown rows as they come, and appends them to $LATHE_CSV."""

    def __init__(self, *head):
        self.head = head
        print("| " + " | ".join(head) + " |")
        print("|" + " --- |" * len(head))

    def add(self, *cells):
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
        path = os.environ.get("LATHE_CSV")
        if not path:
            return
        is_new = not os.path.exists(path) or os.path.getsize(path) == 0
        with open(path, "a", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(self.head)
            writer.writerow(cells)


def in_turns(measure):
    """The best value of each key that measure(side) gives, for both sides."""
    measure("Lathe")  # so that every kernel is in the cache
    best = {side: {} for side in SIDES}
    for i in range(ROUNDS):
        for side in SIDES if i % 2 == 0 else SIDES[::-1]:
            for key, value in measure(side).items():
                best[side][key] = max(best[side].get(key, 0), value)
    return best["alone"], best["Lathe"]


def digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def add_speeds(table, name, threads, alone, lathe):
    for test in alone:
        table.add(name, threads, test, digits(alone[test]), digits(lathe[test]),
                  f"{lathe[test] / alone[test]:.2f}x")


def speed_table():
    return Table("model", "threads", "test", "alone", "with Lathe", "ratio")


def compare_speed(tools, backend, *models):
    table = speed_table()
    prompts = ",".join(test[2:] for test in TESTS if test.startswith("pp")) or "0"
    generated = ",".join(test[2:] for test in TESTS if test.startswith("tg")) or "0"
    for model in map(pathlib.Path, models):
        for threads in THREADS:
            def measure(side):
                text, _ = run(side, backend, tools / "llama-bench", "-m", model, "-t", threads, "-p", prompts,
                              "-n", generated, "-r", 1, "-o", "json")
                return {f"tg{row['n_gen']}" if row["n_gen"] else f"pp{row['n_prompt']}": row["avg_ts"]
                        for row in json.loads(text)}

            add_speeds(table, model.stem, threads, *in_turns(measure))


def compare_sequences(tools, backend, *models):
    table = speed_table()
    for model in map(pathlib.Path, models):
        for threads in THREADS:
            def measure(side):
                text, _ = run(side, backend, tools / "llama-batched-bench", "-m", model, "-t", threads, "-c", 4096,
                              "-npp", 128, "-ntg", 64, "-npl", "1,4,16", "--output-format", "jsonl", *LOAD_BACKENDS)
                speeds = {}
                for line in re.findall(r"\{.*\}", text):
                    row = json.loads(line)
                    speeds[f"pp128 x{row['pl']}"] = row["speed_pp"]
                    speeds[f"tg64 x{row['pl']}"] = row["speed_tg"]
                return speeds

            add_speeds(table, model.stem, threads, *in_turns(measure))


def compare_operations(tools, backend, *formats):
    """GFLOP/s with all processors of this process. The tool marks no buffer as weights, so no weight is packed."""
    table = speed_table()
    for name in formats:
        speeds = []
        for device in ("CPU", "Lathe"):
            text, _ = run("Lathe", backend, tools / "test-backend-ops", "perf", "-b", device, "-o", "MUL_MAT",
                          "-p", f"type_a={name},")
            speeds.append({})
            for m, n, k, time in re.findall(r"m=(\d+),n=(\d+),k=(\d+),bs=\[1,1\],.*?([0-9.]+) us/run", text):
                speeds[-1][f"{n} x {m} x {k}"] = 2e-3 * int(m) * int(n) * int(k) / float(time)
        add_speeds(table, f"MUL_MAT {name}", len(os.sched_getaffinity(0)), *speeds)


def perplexity_of(side, tools, backend, text, model, *options):
    return "".join(run(side, backend, tools / "llama-perplexity", "-m", model, "-f", text, "-c", 512,
                       "-t", max(THREADS), "--chunks", CHUNKS, *options, *LOAD_BACKENDS))


def compare_text(tools, backend, text, *models):
    """Perplexities, and how far apart they are. The mean over few tokens varies, so its standard error counts, too."""
    wrong = []
    table = Table("model", "alone", "with Lathe", "difference", "standard error", "KL divergence")
    with tempfile.TemporaryDirectory(dir=os.environ.get("LATHE_TEMPORARY")) as folder:
        base = f"{folder}/logits"
        for model in map(pathlib.Path, models):
            perplexity_of("alone", tools, backend, text, model, "--save-all-logits", base)
            out = perplexity_of("Lathe", tools, backend, text, model, "--kl-divergence-base", base, "--kl-divergence")
            alone, lathe, divergence = [float(re.search(pattern + r" *: *([-0-9.]+)", out).group(1)) for pattern in (
                r"Mean PPL\(base\)", r"Mean PPL\(Q\)", r"Mean +KLD")]
            difference, error = map(float, re.search(
                r"Mean ln\(PPL\(Q\)/PPL\(base\)\) *: *([-0-9.]+) ± *([0-9.]+)", out).groups())
            table.add(model.stem, f"{alone:.4f}", f"{lathe:.4f}", f"{100 * difference:+.3f} %", f"{100 * error:.3f} %",
                      f"{divergence:.6f}")
            if abs(difference) > max(LARGEST_DIFFERENCE, 2 * error):
                wrong.append(model.stem)
    if wrong:
        print(f"more than {100 * LARGEST_DIFFERENCE} % and two standard errors apart: {', '.join(wrong)}")
    return 1 if wrong else 0


def compare_reference(tools, backend, text, *models):
    """Kullback-Leibler divergence from the same weights in f32 (f32 activations and KV cache), alone and with Lathe."""
    exact = ("-fa", "off", "-ctk", "f32", "-ctv", "f32")
    table = Table("model", "micro-batch", "perplexity in f32", "alone", "with Lathe", "KL divergence alone",
                  "with Lathe", "same first token alone", "with Lathe")
    with tempfile.TemporaryDirectory(dir=os.environ.get("LATHE_TEMPORARY")) as folder:
        wide, base = f"{folder}/f32.gguf", f"{folder}/logits"
        for model in map(pathlib.Path, models):
            run("alone", backend, tools / "llama-quantize", "--allow-requantize", model, wide, "F32")
            perplexity_of("alone", tools, backend, text, wide, *exact, "--save-all-logits", base)
            for micro_batch in (512, 16):
                found = {}
                for side in SIDES:
                    out = perplexity_of(side, tools, backend, text, model, *exact, "-ub", micro_batch,
                                        "--kl-divergence-base", base, "--kl-divergence")
                    found[side] = [re.search(pattern + r" *: *([0-9.]+)", out).group(1) for pattern in (
                        r"Mean PPL\(base\)", r"Mean PPL\(Q\)", r"Mean +KLD", r"Same top p")]
                (f32, alone, alone_kl, alone_top), (_, lathe, lathe_kl, lathe_top) = found["alone"], found["Lathe"]
                table.add(model.stem, micro_batch, f32, alone, lathe, alone_kl, lathe_kl, alone_top + " %",
                          lathe_top + " %")


def first_difference(alone, lathe):
    """Index of the first step with another token; None if there is none."""
    return next((i for i, (a, b) in enumerate(zip(alone, lathe)) if a["token"] != b["token"]), None)


def explain(a, b):
    """(gap between the two tokens, how much logits differ, whether the gap is rounding). The contexts are equal."""
    first, second = dict(a["top"]), dict(b["top"])
    both = [token for token in first if token in second]
    differences = [first[token] - second[token] for token in both]
    mean = sum(differences) / len(differences)
    noise = (sum((d - mean) ** 2 for d in differences) / len(differences)) ** 0.5
    mine, other = a["token"], b["token"]
    if other not in first or mine not in second:
        return None, noise, False
    gap = max(first[mine] - first[other], second[other] - second[mine])
    spread = max(first.values()) - min(first.values())
    # The difference of two logits has a standard deviation of sqrt(2) * noise; noise itself must be small.
    return gap, noise, gap <= 6 * noise and noise < 0.1 * spread


def compare_greedy(tool, backend, text, *models):
    wrong = 0
    table = Table("model", "same text", "prompts", "first differences", "largest gap", "noise of logits", "explained")
    for model in map(pathlib.Path, models):
        both = []
        for side in SIDES:
            out, _ = run(side, backend, tool, model, text, PROMPTS, 200, max(THREADS))
            both.append([json.loads(line) for line in out.splitlines() if line.startswith("[")])
        positions, gaps, noises, explained = [], [], [], 0
        for alone, lathe in zip(*both):
            i = first_difference(alone, lathe)
            if i is None:
                continue
            gap, noise, is_rounding = explain(alone[i], lathe[i])
            positions.append(i)
            gaps.append(float("inf") if gap is None else gap)
            noises.append(noise)
            explained += is_rounding
        table.add(model.stem, len(both[0]) - len(positions), len(both[0]), " ".join(map(str, positions)) or "-",
                  f"{max(gaps):.4f}" if gaps else "-", f"{max(noises):.4f}" if noises else "-",
                  f"{explained} of {len(positions)}")
        wrong += len(positions) - explained + (not both[0])
    return 1 if wrong else 0


MODES = {"speed": compare_speed, "sequences": compare_sequences, "operations": compare_operations, "text": compare_text,
         "reference": compare_reference, "greedy": compare_greedy}


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in MODES:
        sys.exit(__doc__)
    return MODES[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])


sys.exit(main())
