"""Tests the help and the usage errors of the command, without running kernels: exit codes, messages, suggestions.

usage: usage_test.py LATHE
"""
import json
import os
import re
import subprocess
import sys
import tempfile

LATHE = sys.argv[1]
VERBS = ["devices", "calibrate", "run matmul", "run argmax", "run matmul_argmax", "run grouped_matmul",
         "explain matmul", "explain argmax", "explain matmul_argmax", "explain grouped_matmul", "explain elementwise",
         "dump matmul", "dump argmax", "dump matmul_argmax", "dump grouped_matmul", "dump elementwise",
         "warm matmul", "warm argmax", "warm matmul_argmax", "warm grouped_matmul", "warm elementwise", "warm", "selftest",
         "cache ls", "cache stats", "cache top", "cache verify", "cache prune", "cache export", "cache import", "cache clear",
         "bundle create", "bundle ls", "bundle verify", "bundle merge"]


def lathe(*words, **environment):
    return subprocess.run([LATHE, *words], capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


def expect_error(code, message, *words, **environment):
    result = lathe(*words, **environment)
    assert result.returncode == code, f"{words}: exit {result.returncode}, wanted {code}: {result.stderr}"
    assert message in result.stderr, f"{words}: wanted '{message}' in '{result.stderr}'"
    assert result.stdout == "", f"{words}: an error belongs on stderr, not: {result.stdout}"


everything = lathe("--help")
assert everything.returncode == 0 and everything.stderr == ""
for verb in VERBS:
    assert f"lathe {verb}" in everything.stdout, f"--help does not list {verb}"
    help = lathe(*verb.split(), "--help")
    assert help.returncode == 0 and help.stdout.startswith(f"lathe {verb}"), f"{verb} --help: {help}"
    assert "--cache-dir DIR" in help.stdout and "--workers N" in help.stdout
for verb in ("run matmul", "explain matmul", "dump matmul", "warm"):
    assert "--dtype f32|f16|bf16|i8|f8e4m3|f8e5m2|f8e4m3fnuz|f8e5m2fnuz" in lathe(*verb.split(), "--help").stdout
for verb in ("run matmul", "run argmax", "explain matmul", "explain argmax"):
    assert "--json" in lathe(*verb.split(), "--help").stdout

for verb in VERBS:
    assert lathe(*verb.split(), "-h").stdout == lathe(*verb.split(), "--help").stdout != ""
for group in ("run", "explain", "dump", "cache", "bundle"):
    for words in ([group, "--help"], [group, "-h"]):
        help = lathe(*words)
        assert help.returncode == 0 and help.stderr == "", f"{words}: {help}"
        listed = [line for line in help.stdout.splitlines() if line.startswith("  lathe ")]
        wanted = [verb for verb in VERBS if verb.startswith(group + " ")]
        assert len(listed) == len(wanted), f"{words} lists {listed}, wanted {wanted}"
        for line, verb in zip(listed, wanted):
            assert line.startswith(f"  lathe {verb}"), f"{words}: {line}"

assert lathe().returncode == 2
version = lathe("--version")
assert version.returncode == 0 and re.fullmatch(r"lathe \d+\.\d+\.\d+\n", version.stdout), version
assert "'lathe --version'" in everything.stdout
# If the output cannot be written, the command fails.
for words in (["--help"], ["run", "--help"], ["warm", "--help"], ["--version"], ["devices"], ["explain", "argmax", "4x1000"],
              ["run", "matmul", "0x4x4"], ["cache", "stats", "--json"]):
    with open("/dev/full", "w") as full:
        result = subprocess.run([LATHE, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                env={**os.environ, "LATHE_CACHE_DIR": ""})
    assert result.returncode == 1 and "cannot write to standard output" in result.stderr, (words, result)
expect_error(2, "--workers takes a whole number from 1 to 1024", "devices", "--workers", "1025")
expect_error(2, "did you mean 'devices'?", "device")
expect_error(2, "'run' needs matmul|argmax|matmul_argmax|grouped_matmul", "run")
expect_error(2, "did you mean '--split-k'?", "run", "matmul", "1x1x1", "--splitk", "2")
expect_error(2, "expected MxNxK, such as 123x456x51234", "run", "matmul", "12x34")
expect_error(2, "expected ROWSxN, such as 4x151936", "run", "argmax", "4")
expect_error(2, "--program FILE is required", "explain", "elementwise", "3x4")
expect_error(2, "not 'f64'", "run", "matmul", "1x1x1", "--dtype", "f64")
expect_error(2, "--workers takes a whole number", "devices", "--workers", "many")
# A request that the library refuses, or that does not fit in memory, fails before memory is allocated.
for verb in ("run", "bench"):
    for words, message in ((["matmul", "3000000000x1x1"], "m 3000000000 > 2147483647"),
                           (["argmax", "3000000000x1"], "rows 3000000000 > 2147483647"),
                           (["matmul_argmax", "1x3000000000x1"], "n 3000000000 > 2147483647"),
                           (["grouped_matmul", "2000000000x4x4", "--used", "2"], "m * used is 4000000000, more than 2147483647"),
                           (["grouped_matmul", "1x1000000x1000000"], "grouped_matmul 1x1000000x1000000 needs 6.4e+04 GB of memory"),
                           (["matmul", "2000000000x2000000000x2"], "spans more than 2^63 - 1 bytes"),
                           (["matmul", "1x1000000x1000000000"], "matmul 1x1000000x1000000000 needs 8e+06 GB of memory, and this machine has"),
                           (["argmax", "1000000000x1000000"], "argmax 1000000000x1000000 needs 8e+06 GB of memory"),
                           (["matmul_argmax", "1x1000000x1000000000"], "matmul_argmax 1x1000000x1000000000 needs 8e+06 GB of memory"),
                           (["matmul", "100000x4x4", "--padding", "2147483647"], "--padding 2147483647 needs")):
        expect_error(1, message, verb, *words, "--cache-dir", "")
expect_error(2, "no shipped facts file has the target 'sm_9'", "explain", "matmul", "1x1x1", "--target", "sm_9", "--cache-dir", "")
expect_error(2, "file 'h2000' does not exist; shipped files: ", "explain", "matmul", "1x1x1", "--facts", "h2000",
             "--cache-dir", "")
expect_error(2, "cannot read '/nonexistent.csv'", "warm", "/nonexistent.csv")
expect_error(1, "NOT_AVAILABLE", "run", "matmul", "1x1x1", "--device", "cuda:63", "--cache-dir", "")
expect_error(1, "gpu:0", "run", "matmul", "1x1x1", "--device", "gpu:0", "--cache-dir", "")

for text, message in [("", "the file has no weights"), ("model,layer\na,b\n", "does not name n and k"),
                      ("model,layer,n,k\na,b,64\n", ":2: expected model,layer,n,k"),
                      ("model,layer,n,k\na,b,64,-2\n", ":2: expected model,layer,n,k")]:
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as shapes:
        shapes.write(text)
        shapes.flush()
        expect_error(2, message, "warm", shapes.name)

# `lathe explain` compiles nothing: it needs no compiler and stores nothing.
with tempfile.TemporaryDirectory() as cache:
    for words in (["matmul", "33x65x129"], ["matmul", "7x96x64", "--dtype", "bf16", "--packed"], ["argmax", "4x1000"],
                  ["matmul_argmax", "4x1000x64"], ["matmul_argmax", "4x1000x64", "--packed"],
                  ["grouped_matmul", "7x96x64", "--gate", "silu"]):
        explained = lathe("explain", *words, "--cache-dir", cache, LATHE_COMPILER_LIBRARY="/nonexistent")
        assert explained.returncode == 0 and "Legal candidates, best first" in explained.stdout, explained
    assert os.listdir(cache) == []

# Spreadsheet programs write a byte-order mark.
with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8-sig") as shapes:
    shapes.write("n,k\n96,64\n")
    shapes.flush()
    warmed = lathe("warm", shapes.name, "--m-max", "1", "--no-compile", "--cache-dir", "")
    assert re.match(r"\d+ class(es)?: 0 compiled, ", warmed.stdout), warmed

with tempfile.TemporaryDirectory() as cache:
    stats = lathe("cache", "stats", "--cache-dir", cache)
    assert stats.returncode == 0 and cache in stats.stdout and "entries    0, 0 bytes" in stats.stdout, stats
    assert "removed 0 entries" in lathe("cache", "clear", "--cache-dir", cache).stdout
    for words in (["ls"], ["stats"], ["top"], ["verify"]):
        listed = lathe("cache", *words, "--json", "--cache-dir", cache)
        assert listed.returncode == 0 and isinstance(json.loads(listed.stdout), dict), listed
    assert "0 good entries, 0 defective" in lathe("cache", "verify", "--cache-dir", cache).stdout
    assert "removed 0 entries" in lathe("cache", "prune", "--to", "1M", "--cache-dir", cache).stdout
    # It is a failure if there is nothing to pack, and an existing bundle stays.
    bundle = cache + "/kept.bundle"
    with open(bundle, "w") as file:
        file.write("kept")
    for words in (["cache", "export", bundle], ["bundle", "create", bundle, cache], ["bundle", "create", bundle, cache, "--target", "sm_90a"]):
        expect_error(1, f"there is no kernel in {cache}", *words, "--cache-dir", cache)
    assert open(bundle).read() == "kept" and os.listdir(cache) == ["kept.bundle"]
    expect_error(2, "is not a cache directory", "bundle", "create", cache + "/x", bundle)
    expect_error(2, "is not a file", "bundle", "merge", cache + "/x", cache)
    expect_error(2, "needs OUT DIR...", "bundle", "create", cache + "/x")
# A cache directory that cannot be read is a failure, not an empty cache.
with tempfile.TemporaryDirectory() as shared:
    os.chmod(shared, 0o777)
    for words in (["ls"], ["stats"], ["top"], ["verify"], ["prune", "--to", "1M"], ["clear"], ["export", shared + "/out"]):
        expect_error(1, f"{shared}: its group or everybody may write to it", "cache", *words, "--cache-dir", shared)
        expect_error(1, "NOT_AVAILABLE: cache directory refused", "cache", *words, "--cache-dir", shared)
    assert os.listdir(shared) == []
expect_error(1, "no cache directory", "cache", "export", "/tmp/lathe-none", "--cache-dir", "")
expect_error(1, "usage_test.py: wrong magic", "bundle", "ls", __file__)
expect_error(1, "/nonexistent.bundle", "cache", "import", "/nonexistent.bundle", "--cache-dir", "")
expect_error(2, "needs --to SIZE", "cache", "prune", "--cache-dir", "")
expect_error(2, "--to takes a number of bytes (4096, 500M, 4G) or unlimited, not '5X'", "cache", "prune", "--to", "5X")
for words, flags in ((["dump", "matmul", "4x4x4"], ("stage", "output")), (["cache", "stats"], ("json", "prometheus")),
                     (["cache", "ls"], ("json", "records")), (["bundle", "ls", "/nonexistent"], ("json", "records"))):
    given = [f"--{flag}" if flag not in ("stage", "output") else f"--{flag}=x" for flag in flags]
    expect_error(2, f"--{flags[0]} and --{flags[1]} cannot be used together", *words, *given, "--cache-dir", "")
expect_error(2, "--dtype is given twice", "explain", "matmul", "4x4x4", "--dtype", "f32", "--dtype", "bf16", "--cache-dir", "")
for epilogue, kind in (("relu,gelu", "activation"), ("bias,bias", "bias"), ("alpha=1,beta=2,alpha=3", "alpha")):
    expect_error(2, f"--epilogue {epilogue} has more than one {kind}", "explain", "matmul", "4x4x4", "--epilogue", epilogue, "--cache-dir", "")
expect_error(2, "no payload (*.mlir) in", "kernel-bench", "x" * 5000, "--cache-dir", "")
expect_error(2, "--cache-bytes takes", "devices", "--cache-bytes", "0")
devices = lathe("devices", "--cache-dir", "")
assert devices.returncode == 0, devices
for name in ("cpu", "cuda", "hip", "spirv"):
    assert any(line.startswith(name) for line in devices.stdout.splitlines()), f"devices does not show {name}"
# The entry of the CPU says how the processor was recognised.
[machine] = [line for line in devices.stdout.splitlines() if line.startswith("         machine ")]
assert any(words in machine for words in ("by its model", "by its features", "from defaults")), machine
print("usage is as documented")
