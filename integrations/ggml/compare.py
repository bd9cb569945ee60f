"""Compares llama.cpp alone with llama.cpp and this backend.

usage: compare.py speed BIN BACKEND MODEL...            tokens per second of prompts and generation
       compare.py sequences BIN BACKEND MODEL...        the same with 1, 4 and 16 sequences at once
       compare.py operations BIN BACKEND FORMAT...      GFLOP/s of MUL_MAT in test-backend-ops
       compare.py text BIN BACKEND TEXT MODEL...        perplexity of a text, and the distance from exact arithmetic
       compare.py greedy BIN BACKEND TEXT MODEL...      200 tokens after each prompt
BIN is the folder of llama.cpp's tools. Both sides run in turns; a speed is the best of the rounds. Variables:
LATHE_ROUNDS: how many (default: 2). LATHE_THREADS: numbers of threads (default: 1,2). LATHE_TESTS: tests of `speed`
(default: pp512,pp2048,tg128). LATHE_CHUNKS: how many 512 tokens of the text (2 or more; default: 16). LATHE_PROMPTS:
prompts of `greedy` (default: 10). LATHE_CSV: a file to which the rows of the tables are appended.
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

LARGEST_DIFFERENCE = 0.001  # of ln(perplexity) and of the KL divergence
SIDES = ("alone", "Lathe")
ROUNDS = int(os.environ.get("LATHE_ROUNDS", "2"))
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
                          "-p", f"type_a={name},type_b=f32,m=4096,n=(1|8|512),k=14336,")
            speeds.append({})
            for m, n, k, time in re.findall(r"m=(\d+),n=(\d+),k=(\d+),bs=\[1,1\],.*?([0-9.]+) us/run", text):
                speeds[-1][f"{n} x {m} x {k}"] = 2e-3 * int(m) * int(n) * int(k) / float(time)
        add_speeds(table, f"MUL_MAT {name}", len(os.sched_getaffinity(0)), *speeds)


def perplexity_of(side, tools, backend, text, model, *options):
    return "".join(run(side, backend, tools / "llama-perplexity", "-m", model, "-f", text, "-c", 512,
                       "-t", max(THREADS), "--chunks", CHUNKS, *options, *LOAD_BACKENDS))


def by_chunk(out):
    """The means of ln(perplexity / that of the base) and of the KL divergence in each chunk. llama-perplexity prints
    the means of all chunks so far."""
    number = r" +(-?[0-9.]+) ± +[0-9.]+"
    means = [(float(a), float(b)) for a, b in re.findall(r"^ *[0-9]+ +[0-9.]+ ± +[0-9.]+" + 2 * number, out, re.M)]
    sums = [(0, 0)] + [(i * a, i * b) for i, (a, b) in enumerate(means, 1)]
    return [tuple(after - before for before, after in zip(*pair)) for pair in zip(sums, sums[1:])]


def mean_and_error(values):
    mean = sum(values) / len(values)
    return mean, (sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values)) ** 0.5


def compare_text(tools, backend, text, *models):
    """Compares both sides with the same weights in f32 (f32 activations and KV cache), chunk by chunk.

    Perplexity: rounding errors have either sign, so a difference counts only above three standard errors. KL
    divergence: errors of any sign add to it, so a backend that rounds more has more. If the text came from the model,
    ln(perplexity) would grow by as much. This must be shown to be no more than the limit.
    """
    wrong = []
    table = Table("model", "perplexity in f32", "alone", "with Lathe", "difference", "standard error",
                  "KL divergence alone", "with Lathe", "difference", "standard error")
    with tempfile.TemporaryDirectory(dir=os.environ.get("LATHE_TEMPORARY")) as folder:
        wide, base = f"{folder}/f32.gguf", f"{folder}/logits"
        for model in map(pathlib.Path, models):
            run("alone", backend, tools / "llama-quantize", "--allow-requantize", model, wide, "F32")
            perplexity_of("alone", tools, backend, text, wide, "-fa", "off", "-ctk", "f32", "-ctv", "f32",
                          "--save-all-logits", base)
            chunks, found = {}, {}
            for side in SIDES:
                out = perplexity_of(side, tools, backend, text, model, "--kl-divergence-base", base, "--kl-divergence")
                chunks[side] = by_chunk(out)
                found[side] = [float(re.search(pattern + r" *: *(-?[0-9.]+)", out).group(1)) for pattern in (
                    r"Mean PPL\(base\)", r"Mean PPL\(Q\)", r"Mean +KLD")]
            pairs = list(zip(chunks["alone"], chunks["Lathe"], strict=True))
            ratio, ratio_error = mean_and_error([lathe[0] - alone[0] for alone, lathe in pairs])
            _, divergence_error = mean_and_error([lathe[1] - alone[1] for alone, lathe in pairs])
            (exact, alone, alone_kl), (_, lathe, lathe_kl) = found["alone"], found["Lathe"]
            divergence = lathe_kl - alone_kl  # with more digits than the mean of the chunks
            table.add(model.stem, f"{exact:.4f}", f"{alone:.4f}", f"{lathe:.4f}", f"{100 * ratio:+.3f} %",
                      f"{100 * ratio_error:.3f} %", f"{alone_kl:.6f}", f"{lathe_kl:.6f}", f"{divergence:+.6f}",
                      f"{divergence_error:.6f}")
            if abs(ratio) > max(LARGEST_DIFFERENCE, 3 * ratio_error):
                wrong.append(f"{model.stem} (perplexity)")
            if divergence + 2 * divergence_error > LARGEST_DIFFERENCE:
                wrong.append(f"{model.stem} (KL divergence)")
    if wrong:
        print(f"not the same text: {', '.join(wrong)}")
    return 1 if wrong else 0


def first_difference(alone, lathe):
    """Index of the first step with another token; None if there is none."""
    return next((i for i, (a, b) in enumerate(zip(alone, lathe)) if a["token"] != b["token"]), None)


def explain(a, b):
    """(gap between the two tokens, how much logits differ, whether the gap is rounding). The contexts are equal."""
    first, second = dict(a["top"]), dict(b["top"])
    noise = distance(first, second)
    mine, other = a["token"], b["token"]
    if other not in first or mine not in second:
        return None, noise, False
    gap = max(first[mine] - first[other], second[other] - second[mine])
    spread = max(first.values()) - min(first.values())
    # The difference of two logits has a standard deviation of sqrt(2) * noise; noise itself must be small.
    return gap, noise, gap <= 6 * noise and noise < 0.1 * spread


def distance(first, second):
    """The standard deviation of the differences of the logits that both have. A constant does not change the text."""
    differences = [first[token] - second[token] for token in first if token in second]
    if len(differences) < 2:
        return float("inf")
    mean = sum(differences) / len(differences)
    return (sum((d - mean) ** 2 for d in differences) / len(differences)) ** 0.5


def steps_of(side, backend, tool, *arguments):
    out, _ = run(side, backend, tool, *arguments)
    return [json.loads(line) for line in out.splitlines() if line.startswith("[")]


def exact_steps(tools, backend, tool, text, model, given):
    """The step after each prompt and its given tokens, computed in f32 with the same weights."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("LATHE_TEMPORARY")) as folder:
        wide, tokens = f"{folder}/f32.gguf", pathlib.Path(folder, "given")
        run("alone", backend, tools / "llama-quantize", "--allow-requantize", model, wide, "F32")
        tokens.write_text("".join(" ".join(map(str, line)) + "\n" for line in given), encoding="utf-8")
        return [steps[0] for steps in steps_of("alone", backend, tool, wide, text, PROMPTS, 1, max(THREADS), tokens)]


def compare_greedy(tools, backend, text, *models):
    """A first difference is explained if the gap of the logits is rounding, or if Lathe's logits are nearer to exact
    ones than llama.cpp's."""
    wrong = 0
    tool = pathlib.Path(backend).with_name("greedy")
    table = Table("model", "same text", "prompts", "first differences", "largest gap", "noise of logits", "rounding",
                  "else Lathe is nearer", "distance from f32 alone", "with Lathe")
    for model in map(pathlib.Path, models):
        alone, lathe = (steps_of(side, backend, tool, model, text, PROMPTS, 200, max(THREADS)) for side in SIDES)
        firsts = [first_difference(*pair) for pair in zip(alone, lathe, strict=True)]
        differences = [first for first in firsts if first is not None]
        given = [[step["token"] for step in steps[:first]] for steps, first in zip(alone, firsts)]
        exact = exact_steps(tools, backend, tool, text, model, given) if differences else []
        gaps, noises, distances, rounding, nearer = [], [], [], 0, 0
        for i, first in enumerate(firsts):
            if first is None:
                continue
            steps = alone[i][first], lathe[i][first]
            gap, noise, is_rounding = explain(*steps)
            gaps.append(float("inf") if gap is None else gap)
            noises.append(noise)
            distances.append([distance(dict(step["top"]), dict(exact[i]["top"])) for step in steps])
            rounding += is_rounding
            nearer += not is_rounding and distances[-1][1] < distances[-1][0]
        cells = [" ".join(map(str, differences)), max(gaps), max(noises), rounding, nearer,
                 *(sum(values) / len(values) for values in zip(*distances))] if differences else ["-"] * 7
        table.add(model.stem, len(firsts) - len(differences), len(firsts),
                  *(f"{cell:.4f}" if isinstance(cell, float) else cell for cell in cells))
        wrong += len(differences) - rounding - nearer + (not firsts)
    return 1 if wrong else 0


MODES = {"speed": compare_speed, "sequences": compare_sequences, "operations": compare_operations, "text": compare_text,
         "greedy": compare_greedy}


def main():
    if len(sys.argv) < 4 or sys.argv[1] not in MODES:
        sys.exit(__doc__)
    return MODES[sys.argv[1]](pathlib.Path(sys.argv[2]), *sys.argv[3:])


sys.exit(main())
