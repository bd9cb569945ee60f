"""Writes the results to disk as soon as they are known: summary.txt, cases.csv, results.tar.gz (logs and tables)."""
import csv
import os
import tarfile
import threading
import time

STATES = ("right", "wrong", "faulted", "hung", "failed", "refused")


class Report:
    def __init__(self, out, work):
        self.out, self.work, self.lock = out, work, threading.RLock()
        self.start, self.lines, self.cases, self.notes = time.monotonic(), [], [], {}
        self.cases_file = open(os.path.join(out, "cases.csv"), "w", encoding="utf-8", newline="")
        self.writer = csv.writer(self.cases_file)
        self.writer.writerow(["family", "dtype", "merge", "state", "worst", "what", "detail", "command"])

    def say(self, text, most=1000):
        """Adds lines to the summary, at most `most` characters, so that all sections together stay below 12,000."""
        if len(text) > most:
            text = text[:most - 40].rpartition("\n")[0] + "\n... more in results.tar.gz"
        with self.lock:
            for line in text.splitlines() or [""]:
                self.lines.append(line)
                print(line, flush=True)
            self.write()

    def add(self, group, case):
        merge = case.get("group", "").partition(", merge ")[2]
        row = [group.row, group.column, merge, case["state"], f"{case.get('worst', 0):.3g}", case.get("what", ""),
               case.get("detail", ""), case.get("command", "")]
        with self.lock:
            self.cases.append(row)
            self.writer.writerow(row)
            self.cases_file.flush()

    def note(self, group, text):
        """Records why a group has fewer cases than it should."""
        with self.lock:
            self.notes[group.row, group.column] = text

    def counts(self, row, column):
        counts = dict.fromkeys(STATES, 0)
        for case in self.cases:
            if (case[0], case[1]) == (row, column):
                counts[case[3]] += 1
        return counts

    def cell(self, row, column):
        counts = self.counts(row, column)
        parts = [f"{counts[state]} {state if state == 'right' else state.upper()}" for state in STATES[:-1] if counts[state]]
        if not parts and counts["refused"]:
            parts = ["refused"]
        if (row, column) in self.notes:
            parts.append(self.notes[row, column])
        return ", ".join(parts) or "-"

    def table(self, groups):
        rows, columns = list(dict.fromkeys(g.row for g in groups)), list(dict.fromkeys(g.column for g in groups))
        known = {(g.row, g.column) for g in groups}
        text = ["| family | " + " | ".join(columns) + " |", "| --- |" + " --- |" * len(columns)]
        for row in rows:
            cells = [self.cell(row, column) if (row, column) in known else "" for column in columns]
            text.append(f"| {row} | " + " | ".join(cells) + " |")
        return "\n".join(text)

    def failures(self, most=20):
        """One entry per family, dtype, merge and state: the first failing case and the number of similar ones."""
        kinds = {}
        for case in self.cases:
            if case[3] not in ("right", "refused"):
                kinds.setdefault(tuple(case[:4]), []).append(case)
        text = []
        for (row, column, merge, state), cases in list(kinds.items())[:most]:
            first = cases[0]
            text.append(f"{state.upper()} {len(cases)}x {row} {column}{f' merge {merge}' if merge else ''}: {first[6][:130]}")
            text.append(f"    {first[7]}")
        if len(kinds) > most:
            text.append(f"... and {len(kinds) - most} more kinds, in cases.csv")
        return "\n".join(text)

    def write(self):
        """Writes the summary by replacing the file as a whole."""
        with self.lock:
            path = os.path.join(self.out, "summary.txt")
            with open(path + ".new", "w", encoding="utf-8") as file:
                file.write("\n".join(self.lines) + "\n")
            os.replace(path + ".new", path)

    def pack(self):
        with self.lock:
            path = os.path.join(self.out, "results.tar.gz")
            with tarfile.open(path + ".new", "w:gz", compresslevel=3) as archive:
                archive.add(self.work, arcname=".")
            os.replace(path + ".new", path)

    def seconds(self):
        return time.monotonic() - self.start
