"""Compares llama.cpp alone with llama.cpp and this backend.

usage: compare.py speed BIN BACKEND MODELS          tokens per second of prompts and generation
       compare.py text BIN BACKEND MODELS TEXT      perplexity of a text
BIN has llama.cpp's tools, MODELS has one GGUF file per format. LATHE_ROUNDS: how often each is measured (default: 5).
"""
import json
import os
import pathlib
import re
import subprocess
import sys

LARGEST_DIFFERENCE = 0.001  # of the perplexity
sides = ("alone", "Lathe")


def run(side, backend, *command):
    environment = dict(os.environ)
    environment.pop("GGML_BACKEND_PATH", None)
    if side == "Lathe":
        environment["GGML_BACKEND_PATH"] = backend
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ({side}) ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr


def speed(tools, backend, model, threads, rounds):
    """Best tokens per second of each (side, "prompt" or "generation")."""
    best = {}
    for _ in range(rounds):
        for side in sides:
            text, _ = run(side, backend, f"{tools}/llama-bench", "-m", str(model), "-t", str(threads), "-p", "512",
                          "-n", "64", "-r", "1", "-o", "json")
            for row in json.loads(text):
                key = side, "generation" if row["n_gen"] else "prompt"
                best[key] = max(best.get(key, 0), row["avg_ts"])
    return best


def compare_speed(tools, backend, models):
    rounds = int(os.environ.get("LATHE_ROUNDS", "5"))
    print("| model | threads | prompt alone | with Lathe | | generation alone | with Lathe | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for model in models:
        for threads in (1, 2):
            best = speed(tools, backend, model, threads, rounds)
            cells = []
            for what in ("prompt", "generation"):
                alone, lathe = best["alone", what], best["Lathe", what]
                cells += [f"{alone:.0f}", f"{lathe:.0f}", f"{lathe / alone:.2f}x"]
            print(f"| {model.stem} | {threads} | " + " | ".join(cells) + " |", flush=True)


def compare_text(tools, backend, models, text):
    wrong = []
    print("| model | alone | with Lathe | difference |")
    print("| --- | --- | --- | --- |")
    for model in models:
        found = []
        for side in sides:
            # The tool loads backends from outside only if an option names devices or buffers.
            outputs = run(side, backend, f"{tools}/llama-perplexity", "-m", str(model), "-f", text, "-c", "512",
                          "--chunks", "16", "-ot", "none=CPU")
            found.append(float(re.search(r"Final estimate: PPL = ([0-9.]+)", "".join(outputs)).group(1)))
        difference = found[1] / found[0] - 1
        print(f"| {model.stem} | {found[0]:.4f} | {found[1]:.4f} | {100 * difference:+.3f} % |", flush=True)
        if abs(difference) > LARGEST_DIFFERENCE:
            wrong.append(model.stem)
    if wrong:
        print(f"more than {100 * LARGEST_DIFFERENCE} % apart: {', '.join(wrong)}")
    return 1 if wrong else 0


def main():
    if len(sys.argv) < 5 or sys.argv[1] not in ("speed", "text"):
        sys.exit(__doc__)
    tools, backend, folder = sys.argv[2:5]
    models = sorted(pathlib.Path(folder).glob("*.gguf"))
    if not models:
        sys.exit(f"{folder} has no GGUF files")
    if sys.argv[1] == "speed":
        compare_speed(tools, backend, models)
    else:
        sys.exit(compare_text(tools, backend, models, sys.argv[5]))


main()
