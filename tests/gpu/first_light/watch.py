"""Watches processes that may hang or fault, line by line, and restarts them after the case that ended them."""
import json
import os
import selectors
import signal
import subprocess
import time

# Errors after which the process has lost its context, so that every later case would fail too.
FAULTS = ("ILLEGAL", "MISALIGNED", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "HARDWARE", "ASSERT", "context is lost", "INVALID_PC",
          "UNKNOWN")


def kill(process):
    """Kills the process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


class Lines:
    """The output lines of a process as they arrive."""

    def __init__(self, command, environment, log):
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE,
                                        stderr=log, start_new_session=True)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        self.rest = b""
        self.ended = False

    def read(self, seconds):
        """The whole lines that arrived in time; [] if there were none or the process ended (then .ended is set)."""
        if self.selector.select(max(0.0, seconds)):
            chunk = self.process.stdout.read()
            if chunk == b"":
                self.ended = True
            elif chunk:
                self.rest += chunk
        *lines, self.rest = self.rest.split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self):
        kill(self.process)
        self.selector.close()
        self.process.stdout.close()


class Watch:
    """The time limits of a watched run, in seconds."""

    def __init__(self, case=8.0, prepare=60.0, start=60.0, restarts=12):
        self.case, self.prepare, self.start, self.restarts = case, prepare, start, restarts


def run_cases(command, environment, log, deadline, watch, tell):
    """Runs `lathe selftest --each` to its last case or the deadline. tell(case) gets every case that ended, as a dict.

    A case that hangs or faults ends its process; the next process starts with the case after it. Returns the number of
    cases, or None if no process got far enough to report it.
    """
    at, total, restarts = 0, None, 0
    while time.monotonic() < deadline and restarts <= watch.restarts:
        lines, case, state = Lines(command + ["--from", str(at)], environment, log), {}, "start"
        limits = {"start": watch.start, "prepare": watch.prepare, "begin": watch.case, "ended": watch.prepare}
        since, why = time.monotonic(), ""
        while not why:
            now = time.monotonic()
            if now >= deadline:
                lines.close()
                return total
            if now - since > limits[state]:
                why = {"begin": "hung", "prepare": "hung while compiling"}.get(state, "hung at the start")
                break
            for line in lines.read(min(deadline, since + limits[state]) - now):
                try:
                    told = json.loads(line)
                except ValueError:
                    continue
                since = time.monotonic()
                at, total = told["case"], told.get("of", total)
                if told["state"] in ("prepare", "begin"):
                    state = told["state"]
                    case.update(told) if state == "begin" else case.clear()
                    continue
                case.update(told)
                if told["state"] == "failed" and any(fault in told["detail"] for fault in FAULTS):
                    case["state"] = why = "faulted"
                    break
                tell(dict(case))
                at, state = at + 1, "ended"
            if lines.ended and not why:
                why = "ended"
        lines.close()
        if why == "ended" and (total is not None and at >= total or state == "start"):
            return total
        if why == "ended":
            why = f"the process ended with status {lines.process.returncode}"
        case.setdefault("case", at)
        case["state"] = {"hung": "hung", "faulted": "faulted"}.get(why, "failed")
        case.setdefault("detail", why)
        if case["state"] == "hung":
            case["detail"] = f"no answer within {watch.case:.0f} s"
        tell(dict(case))
        at, restarts = at + 1, restarts + 1
        if total is not None and at >= total:
            return total
    return total


def run_bench(command, environment, log, deadline, seconds_of_row, tell_line):
    """Runs lathe_cuda_bench --mode matmul and restarts it after a row that hangs or ends it. Returns what happened."""
    lost, skip = [], 0
    while time.monotonic() < deadline - 3:
        left = max(1, int(deadline - time.monotonic() - 2))
        lines = Lines(command + ["--deadline", str(left), "--skip", str(skip)], environment, log)
        row, since, began = None, time.monotonic(), False
        while not lines.ended and time.monotonic() < deadline:
            if time.monotonic() - since > (seconds_of_row if began else 60):
                break
            for line in lines.read(0.5):
                since = time.monotonic()
                tell_line(line)
                if line.startswith("begin "):
                    row, began = line, True
        hung = not lines.ended
        status = None
        if lines.ended:
            try:
                status = lines.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                hung = True
        lines.close()
        if not hung and status in (0, 1):
            return lost
        if row is None or time.monotonic() >= deadline:
            lost.append(f"{'hung' if hung else f'ended with status {status}'} at {row or 'the start'}")
            return lost
        lost.append(f"{'hung' if hung else f'ended with status {status}'}: {row[6:]}")
        skip = int(row.split()[1]) + 1
    return lost
