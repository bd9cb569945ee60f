"""Runs `lathe selftest` as a user does: the verdict, the exit code, filters, and the commands that repeat a check.

usage: selftest_test.py LATHE DEVICE [FLAG...]
"""
import json
import os
import re
import subprocess
import sys
import tempfile

LATHE, DEVICE, FLAGS = sys.argv[1], sys.argv[2], sys.argv[3:]


def selftest(*words, cache="", timeout=600):
    return subprocess.run([LATHE, "selftest", "--device", DEVICE, "--cache-dir", cache, *words], capture_output=True, text=True,
                          timeout=timeout)


result = selftest("--quick", *FLAGS, timeout=3000)
print(result.stdout)
verdict = re.fullmatch(rf"selftest {DEVICE}: (\d+) right, (\d+) wrong, (\d+) skipped", result.stdout.splitlines()[-1])
assert verdict, result.stdout[-500:] + result.stderr
right, wrong, skipped = map(int, verdict.groups())
assert result.returncode == 0 and wrong == 0 and right > 0, result.stderr
reasons = sum(int(n) for n in re.findall(r"^skipped +(\d+)  ", result.stdout, re.MULTILINE))
assert reasons == skipped, f"{skipped} skipped, but reasons for {reasons}"
groups = [line.split("  ")[1] for line in result.stdout.splitlines() if line.startswith("  ") and line[2] != " "]
if not FLAGS:
    for group in ("shapes", "dtypes", "epilogues", "alignments", "batches", "splits", "long sums", "special values",
                  "empty sizes", "decode", "families", "equal bits", "candidates", "argmax", "refusals", "streams", "capture"):
        assert group in groups, f"no {group} in {groups}"
seed = re.search(r"seed (\d+)", result.stdout)[1]

one = selftest("--filter", "refusals a miss", "--seed", seed)
assert one.returncode == 0 and one.stdout.splitlines()[-1] == f"selftest {DEVICE}: 1 right, 0 wrong, 0 skipped", one.stdout
assert f"seed {seed}" in one.stdout
none = selftest("--filter", "no such thing")
assert none.returncode == 2 and "the line of no check contains 'no such thing'" in none.stderr, none
# It is a failure if nothing was tested.
if DEVICE == "cpu":
    untested = selftest("--filter", "capture")
    assert untested.returncode == 1 and "0 right, 0 wrong, 5 skipped" in untested.stdout, untested
# With --family, requests that the family does not support are skipped with a reason. An unknown family is wrong usage.
if DEVICE == "cpu":
    forced = selftest("--filter", "families", "--quick", "--family", "dot")
    assert forced.returncode == 0 and "every request on the kernel family dot" in forced.stdout, forced
    assert re.search(r"selftest cpu: [1-9]\d* right, 0 wrong", forced.stdout), forced
    skipped = selftest("--filter", "families", "--quick", "--family", "rows")
    assert skipped.returncode == 1 and "the family rows has no legal candidate" in skipped.stdout, skipped
    assert "cpu: 0 right, 0 wrong, 8 skipped" in skipped.stdout, skipped
    with tempfile.TemporaryDirectory() as cache:
        unknown = selftest("--family", "dott", cache=cache)
        assert unknown.returncode == 2 and "--family takes " in unknown.stderr and "did you mean 'dot'?" in unknown.stderr, unknown
        assert os.listdir(cache) == []
    # A filter also finds forced ranks.
    one = selftest("--filter", "--candidate 12", "--quick")
    assert one.returncode == 0 and re.search(r"selftest cpu: [1-9]\d* right, 0 wrong", one.stdout), one

# Runs the requests of a file, and prints each case as JSON.
if DEVICE == "cpu":
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/requests"

        def write(text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        def told(*words):
            done = selftest("--requests", path, "--each", *words)
            return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

        write("# two requests\n\nmatmul 5x40x70 --dtype f32\n  argmax 3x100 --dtype bf16\n")
        status, lines = told()
        assert status == 0 and [line["state"] for line in lines] == ["prepare", "begin", "right"] * 2, lines
        assert lines[1]["what"] == "matmul 5x40x70" and lines[0]["of"] == 2 and lines[3]["case"] == 1, lines
        again = subprocess.run([LATHE] + lines[1]["command"].split()[1:] + ["--cache-dir", ""], capture_output=True, text=True)
        assert again.returncode == 0, again
        status, lines = told("--from", "1")
        assert status == 0 and [line["case"] for line in lines] == [1, 1, 1], lines
        status, lines = told("--best", "3")
        ranks = [line["what"] for line in lines if line["state"] == "begin" and line["what"].startswith("matmul")]
        assert status == 0 and len(ranks) == 3 and ranks[1].endswith("--candidate 2"), lines
        status, lines = told("--family", "rows")
        assert [line["state"] for line in lines if line["state"] not in ("prepare", "begin")] == ["refused", "right"], lines
        # Writes the classes and candidates of the checks, for a described device.
        manifest = directory + "/classes.json"
        listed = subprocess.run([LATHE, "selftest", "--requests", path, "--best", "2", "--manifest", manifest, "--facts", "h200",
                                 "--target", "sm_90a", "--cache-dir", ""], capture_output=True, text=True)
        with open(manifest, encoding="utf-8") as file:
            classes = json.load(file)["classes"]
        assert listed.returncode == 0 and [c.get("candidate", 0) for c in classes if c["op"] == "matmul"] == [0, 2], classes
        write("matmul 5x40\n")
        bad = selftest("--requests", path)
        assert bad.returncode == 2 and f"{path}: line 1, 'matmul 5x40'" in bad.stderr, bad
        write("# nothing\n")
        bad = selftest("--requests", path)
        assert bad.returncode == 2 and "the file has no request" in bad.stderr, bad
    for words in (["--from", "1"], ["--best", "2"], ["--facts", "h200"], ["--requests", "/no/such/file"]):
        bad = selftest(*words)
        assert bad.returncode == 2, bad
