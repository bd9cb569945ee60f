#!/usr/bin/env python3
"""The first minutes on a CUDA device: correctness by kernel family, streams, speed. See docs/measuring-on-a-gpu.md.

    first [--seconds 330] [--out results]                       everything, the most important first
    second --from RESULTS [--seconds 240] [--family TEXT] [--case TEXT] [--candidate RANK] [--out results]
    requests --out DIRECTORY                                    writes the requests for the bundle of a pack
"""
import argparse
import concurrent.futures
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import requests as asked
import speed
from report import Report
from watch import Watch, run_cases

HERE = os.path.dirname(os.path.abspath(__file__))
PACK = os.environ.get("LATHE_PACK", os.path.dirname(os.path.dirname(HERE)))
LATHE = os.path.join(PACK, "bin", "lathe")


class Ended(BaseException):
    """The run was killed from outside."""


def guarded(report, part, *arguments):
    """Runs one part. If it fails, reports the error, so that the next part can start."""
    try:
        part(*arguments)
    except Exception:  # pylint: disable=broad-except
        report.say(f"{part.__name__} failed:\n" + traceback.format_exc())


def output_of(command, seconds=30):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False)
        return done.returncode, done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return -1, str(error)


def device_line():
    """The line of `lathe devices` about cuda:0, or why there is none."""
    _, text = output_of([LATHE, "devices"], 60)
    lines = [line for line in text.splitlines() if line.startswith("cuda")]
    return lines[0] if lines else text.strip() or "no device"


def show_facts(report):
    """Reports the driver, and the queried facts that differ from the facts file of this processor."""
    report.say(f"device: {device_line()}")
    status, text = output_of(["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,memory.total",
                              "--format=csv,noheader"])
    report.say("nvidia-smi: " + (text.strip() if status == 0 else "not installed"))
    status, text = output_of([LATHE, "explain", "matmul", "64x64x64", "--dtype", "bf16", "--device", "cuda:0", "--json"])
    if status != 0:
        report.say("facts: " + text.strip())
        return
    queried = json.loads(text)["facts"]["facts"]
    with open(os.path.join(report.work, "facts.json"), "w", encoding="utf-8") as file:
        json.dump(queried, file, indent=1)
    for name in ("h100", "h200"):
        with open(os.path.join(PACK, "share", "lathe", "facts", name + ".json"), encoding="utf-8") as file:
            written = json.load(file)["facts"]
        differences = []
        for fact in sorted(set(written) | set(queried)):
            theirs, ours = (side.get(fact, {}).get("value", "absent") for side in (written, queried))
            if theirs != ours:
                differences.append(f"{fact} {ours} (file: {theirs})")
        report.say(f"facts that differ from {name}.json: " + ("; ".join(differences) or "none"), 700)


def run_group(group, report, deadline, watch):
    """Runs all cases of one cell of the table, in their own processes."""
    command = [LATHE, "selftest", "--device", "cuda:0", "--each"] + group.flags
    if group.lines:  # otherwise the self-test's own table
        path = os.path.join(report.work, group.name + ".requests")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(group.lines) + "\n")
        command += ["--requests", path]
    if group.family:
        command += ["--family", group.family]
    told = []

    def tell(case):
        told.append(case["case"])
        report.add(group, case)

    with open(os.path.join(report.work, group.name + ".log"), "wb") as log:
        total = run_cases(command, group.environment, log, deadline, watch, tell)
    if total is None and not told:
        with open(os.path.join(report.work, group.name + ".log"), encoding="utf-8", errors="replace") as log:
            last = (log.read().strip().splitlines() or ["no answer"])[0]
        report.note(group, "no such family" if "--family takes" in last else f"not started: {last[:60]}")
    elif total is None or len(told) < total:
        report.note(group, f"{(total or 0) - len(told)} not run")


def run_groups(groups, report, seconds, watch, at_once):
    deadline = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(guarded, report, run_group, group, report, deadline, watch) for group in groups}
        while waiting:
            _, waiting = concurrent.futures.wait(waiting, timeout=5)
            report.pack()


def run_steps(steps, report, seconds):
    """Runs programs side by side, each with its own log and verdict."""
    deadline, running = time.monotonic() + seconds, []
    for name, command, environment in steps:
        log = open(os.path.join(report.work, name + ".log"), "wb")
        running.append((name, log, subprocess.Popen(command, env={**os.environ, **environment}, stdout=log,
                                                    stderr=subprocess.STDOUT, start_new_session=True)))
    for name, log, process in running:
        try:
            status = process.wait(timeout=max(0.1, deadline - time.monotonic()))
            verdict = "passed" if status == 0 else f"FAILED ({status})"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            verdict = "OUT OF TIME"
        log.close()
        report.say(f"{name}: {verdict}")
        if verdict != "passed":
            with open(log.name, encoding="utf-8", errors="replace") as file:
                wrong = [line for line in file.read().splitlines() if line.startswith("WRONG") or "Failure" in line]
            report.say("\n".join(line[:250] for line in wrong[:3]))
    report.pack()


def streams(report, seconds, smoke):
    selftest = [LATHE, "selftest", "--device", "cuda:0", "--quick"]
    quick = {"LATHE_TEST_DEVICE": "cuda:0", "LATHE_TEST_QUICK": "1", "LATHE_TEST_SECONDS": "5", "LATHE_BUNDLES": ""}
    steps = [("streams capture", selftest + ["--filter", "capture"], {}),
             ("streams two at once", selftest + ["--filter", "streams"], {}),
             ("streams refusals", selftest + ["--filter", "refusals"], {})]
    if not smoke:
        steps += [(f"conformance_{name}", [os.path.join(PACK, "bin", f"conformance_{name}")], quick)
                  for name in ("streams", "threads")]
    run_steps(steps, report, seconds)


def sanitize(report, seconds, cores):
    """Runs compute-sanitizer on a small case of each family."""
    if shutil.which("compute-sanitizer") is None:
        report.say("sanitize: compute-sanitizer is not installed")
        return
    path = os.path.join(report.work, "sanitize.requests")
    with open(path, "w", encoding="utf-8") as file:
        file.write("matmul 7x336x528 --dtype bf16 --split-k 3\nargmax 3x9000 --dtype bf16\n")
    steps = []
    # Lathe counts a kernel's parameters by asking for one too many; this must not be reported as an error.
    for tool, quiet in (("memcheck", ["--report-api-errors", "no"]), ("racecheck", [])):
        for family in ("wgmma", "skinny", "mma", "simt", "ukernel", "rows"):
            steps.append((f"{tool} {family}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *quiet, LATHE,
                                               "selftest", "--device", "cuda:0", "--requests", path, "--family", family,
                                               "--each"], {}))
    run_steps(steps[:max(2, cores)], report, seconds)


def hold_device():
    """Starts a process that keeps a context. Without a persistence daemon each process would start the driver."""
    program = ("import ctypes, time\ncuda = ctypes.CDLL('libcuda.so.1')\ncuda.cuInit(0)\ncontext = ctypes.c_void_p()\n"
               "cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\ntime.sleep(900)")
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def within(arguments, groups, measure):
    """Calls `measure(report)` if there is a device and writes the report in any case. Returns the exit status."""
    name, line = f"run {arguments.verb}", device_line()
    if not line.startswith("cuda:0"):
        print(f"{name}: no CUDA device: {' '.join(line.split())}")
        return 2
    os.makedirs(arguments.out, exist_ok=True)

    def end(*_):
        raise Ended
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    report, ended, holder = Report(arguments.out, tempfile.mkdtemp()), False, hold_device()
    try:
        report.say(f"{name}, {arguments.seconds:.0f} s, {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}")
        measure(report)
    except Ended:
        ended = True
    holder.kill()
    if ended:
        report.say("killed from outside")
    report.say("")
    report.say(report.table(groups), 2500)
    report.say(report.failures(), 3500)
    report.say(f"took {report.seconds():.0f} s")
    report.pack()
    shutil.rmtree(report.work, ignore_errors=True)
    return 1 if ended or any(case[3] not in ("right", "refused") for case in report.cases) else 0


def first(arguments):
    """Facts, correctness, streams, speed, then the sanitizer."""
    smoke, cores = arguments.smoke, os.cpu_count() or 2
    groups = [g for g in asked.groups(smoke) if arguments.family in g.name]
    share = (arguments.seconds - 5) / 325

    def measure(report):
        guarded(report, show_facts, report)
        watch = Watch(case=arguments.hang) if smoke else Watch()
        guarded(report, run_groups, groups, report, 120 * share, watch, max(2, cores - 2))
        report.say(f"correctness: {len(report.cases)} cases in {report.seconds():.0f} s")
        if not arguments.no_streams:
            guarded(report, streams, report, 20 * share, smoke)
        if not arguments.no_speed:
            # Speed gets the time that correctness left, minus half a minute.
            left = arguments.seconds - 38 - report.seconds()
            guarded(report, speed.measure, report, PACK, max(left, 100 * share), smoke)
        left = arguments.seconds - 8 - report.seconds()
        if left > 15 and not smoke:
            guarded(report, sanitize, report, left, cores)
    return within(arguments, groups, measure)


def second(arguments):
    """Repeats what failed and what was slow."""
    try:
        with open(os.path.join(arguments.results, "cases.csv"), encoding="utf-8") as file:
            cases = [row for row in csv.DictReader(file) if row["state"] not in ("right", "refused")]
    except OSError as error:
        print(f"run second: --from {arguments.results}: {error}")
        return 2
    failed = {(row["family"], row["dtype"]) for row in cases}
    groups = [g for g in asked.groups(arguments.smoke) if (g.row, g.column) in failed or arguments.everything]
    groups = [g for g in groups if arguments.family in g.name]
    for group in groups:
        group.lines = [line for line in group.lines if arguments.case in line]
        if arguments.candidate:
            group.lines = [f"{line} --candidate {arguments.candidate}" for line in group.lines]
    groups = [g for g in groups if g.lines or g.row == "self-test"]

    def measure(report):
        report.say(f"device: {device_line()}")
        if groups:
            guarded(report, run_groups, groups, report, arguments.seconds * 0.4, Watch(), max(2, (os.cpu_count() or 2) - 2))
        else:
            report.say("nothing to repeat: no earlier failure is selected")
        if not arguments.no_speed:
            left = arguments.seconds - 8 - report.seconds()
            guarded(report, speed.measure, report, PACK, left, False, arguments.results)
    return within(arguments, groups, measure)


def write_requests(arguments):
    """Writes a file of requests for each family, and one for speed."""
    os.makedirs(arguments.out, exist_ok=True)
    by_family = {}
    for group in asked.groups():
        if group.family:
            by_family.setdefault(group.family, []).extend(group.lines)
    by_family["speed"] = asked.speed_requests()
    for family, lines in by_family.items():
        with open(os.path.join(arguments.out, family + ".requests"), "w", encoding="utf-8") as file:
            file.write("\n".join(dict.fromkeys(lines)) + "\n")
    print(" ".join(by_family))
    return 0


def main():
    parser = argparse.ArgumentParser(prog="run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, seconds in (("first", 330), ("second", 240)):
        verb = verbs.add_parser(name)
        verb.add_argument("--seconds", type=float, default=seconds)
        verb.add_argument("--out", default="results")
        verb.add_argument("--family", default="", help="only groups whose name contains this text: wgmma, mma-bf16, generic")
        verb.add_argument("--no-speed", action="store_true")
        verb.add_argument("--smoke", action="store_true", help="few and small cases, for an emulated device")
        if name == "first":
            verb.add_argument("--hang", type=float, default=20, help="with --smoke: seconds after which a case counts as hung")
            verb.add_argument("--no-streams", action="store_true")
        else:
            verb.add_argument("--from", dest="results", required=True, help="the results of `run first`")
            verb.add_argument("--case", default="", help="only requests that contain this text")
            verb.add_argument("--candidate", default="", help="force the candidate of this rank")
            verb.add_argument("--everything", action="store_true", help="repeat also what was right")
    verbs.add_parser("requests").add_argument("--out", required=True)
    arguments = parser.parse_args()
    if "out" in arguments:
        arguments.out = os.path.abspath(arguments.out)
    return {"first": first, "second": second, "requests": write_requests}[arguments.verb](arguments)


if __name__ == "__main__":
    sys.exit(main())
