"""What happens to a model on this backend when something goes wrong: a kill during the warm-up, two processes on one
cache, a cache directory that cannot be written, a model larger than memory.

usage: robustness.py BIN BACKEND MODEL LARGE WORK
BIN is the folder of llama.cpp's tools, LARGE a model larger than memory (random_model.py), WORK a folder for caches.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

READY = re.compile(r"lathe: (\d+) kernels for \d+ weights and \d+ threads are ready after [0-9.]+ s "
                   r"\((\d+) compiled, (\d+) from the cache\)")
bench, backend, model, large, work = "", "", "", "", pathlib.Path()
failures = []


def check(holds, what):
    print(("ok: " if holds else "FAILED: ") + what, flush=True)
    if not holds:
        failures.append(what)


def start(cache, *before, of=None, arguments=()):
    environment = dict(os.environ, GGML_BACKEND_PATH=backend, LATHE_CACHE_DIR=str(cache))
    return subprocess.Popen([*before, bench, "-m", of or model, "-t", "1", "-p", "32", "-n", "4", "-r", "1",
                             *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def end(process):
    """(exit status, output, kernels, compiled, loaded)"""
    output, _ = process.communicate(timeout=600)
    found = READY.search(output)
    return (process.returncode, output, *(map(int, found.groups()) if found else (0, 0, 0)))


def new_cache(name):
    cache = work / name
    shutil.rmtree(cache, ignore_errors=True)
    return cache


def files_in(cache):
    return sum(1 for path in cache.rglob("*") if path.is_file()) if cache.exists() else 0


def killed_during_warm_up():
    cache = new_cache("killed")
    first = start(cache)
    while files_in(cache) < 40 and first.poll() is None:
        time.sleep(0.02)
    first.kill()
    check(end(first)[0] == -9, "the first process was killed during its warm-up")
    status, _, kernels, compiled, loaded = end(start(cache))
    check(status == 0 and 0 < loaded < kernels and compiled + loaded == kernels,
          f"the next one compiles what is missing: {compiled} of {kernels} kernels, {loaded} from the cache")
    status, _, kernels, compiled, _ = end(start(cache))
    check(status == 0 and kernels > 0 and compiled == 0, "the third one compiles nothing")
    return cache


def two_on_one_cache():
    cache = new_cache("shared")
    both = [start(cache), start(cache)]
    results = [end(process) for process in both]
    check(all(result[0] == 0 for result in results), "two processes on one empty cache end well")
    compiled, kernels = sum(result[3] for result in results), max(result[2] for result in results)
    check(0 < compiled <= kernels, f"together they compile each kernel once: {compiled} of {kernels}")
    check(end(start(cache))[3] == 0, "a later process compiles nothing")


def unwritable_cache(full):
    # Root may write everywhere, unless it gives this up.
    without = ("setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override") if os.geteuid() == 0 else ()
    empty = new_cache("unwritable")
    empty.mkdir(mode=0o500)
    status, output, kernels, compiled, _ = end(start(empty, *without))
    check(status == 0 and kernels > 0 and compiled == kernels and files_in(empty) == 0,
          f"works with an empty cache that cannot be written: {compiled} kernels compiled")
    check(output.count("cannot write to") == 1, "says once that the cache cannot be written")
    for path in [full, *full.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)
    status, _, kernels, compiled, _ = end(start(full, *without))
    check(status == 0 and kernels > 0 and compiled == 0, "reads a full cache that cannot be written")
    for path in [full, *full.rglob("*")]:
        path.chmod(0o700 if path.is_dir() else 0o600)


def larger_than_memory():
    status, output, *_ = end(start(work / "killed", of=large, arguments=("-v", "--load-mode", "none")))
    check(status > 0, f"a model larger than memory ends with an exit status, not with a signal: {status}")
    check("do not fit into the available memory of" in output, "the message says that the model does not fit")


def main():
    global bench, backend, model, large, work
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    bench, backend, model, large = sys.argv[1] + "/llama-bench", *sys.argv[2:5]
    work = pathlib.Path(sys.argv[5])
    work.mkdir(parents=True, exist_ok=True)
    full = killed_during_warm_up()
    two_on_one_cache()
    unwritable_cache(full)
    larger_than_memory()
    return 1 if failures else 0


sys.exit(main())
