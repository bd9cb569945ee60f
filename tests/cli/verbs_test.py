"""Tests the verbs of the command with a real cache and compiled kernels: run, bench, explain, dump, warm, tune,
calibrate, cache and bundle.

usage: verbs_test.py LATHE
"""
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LATHE = sys.argv[1]


def lathe(*words, cache):
    result = subprocess.run([LATHE, *map(str, words), "--cache-dir", str(cache)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, f"lathe {words}: exit {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def run(*words, cache):
    return json.loads(lathe("run", *words, "--json", "--repeat", 3, cache=cache))


def test_seeds(cache):
    """The seed of random inputs: --seed, else LATHE_TEST_SEED, else a new one for each run."""
    def seed(*words, **environment):
        plain = {name: value for name, value in os.environ.items() if name != "LATHE_TEST_SEED"}
        report = subprocess.run([LATHE, "run", "matmul", "3x4x5", "--json", "--cache-dir", str(cache), *words], check=True,
                                capture_output=True, text=True, timeout=120, env={**plain, **environment})
        return json.loads(report.stdout)["seed"]

    assert seed() != seed()
    assert seed(LATHE_TEST_SEED="17") == 17
    assert seed("--seed", "3", LATHE_TEST_SEED="17") == 3


def test_run(cache):
    first = run("matmul", "33x65x129", cache=cache)
    assert first["cache_outcome"] == "compiled" and first["compiler_loaded"] and first["compile_ms"] > 0, first
    assert first["check"]["ok"] and first["check"]["checked"] == first["check"]["total"] == 33 * 65, first["check"]
    assert first["gflops"] > 0 and first["gb_per_second"] > 0 and first["plan"]["config"]["kernel"]
    # Another process with another M of the same bucket loads the kernel from disk, without the compiler.
    second = run("matmul", "34x65x129", cache=cache)
    assert second["cache_outcome"] == "disk hit" and not second["compiler_loaded"], second

    for words in (["matmul", "7x300x1000", "--dtype", "bf16", "--layout", "nn", "--epilogue", "bias,gelu,residual"],
                  ["matmul", "5x6x7", "--dtype", "f16", "--out-dtype", "f32", "--layout", "tt", "--batch", "3",
                   "--epilogue", "alpha=0.5,beta=2"],
                  ["matmul", "12x45x5123", "--split-k", "7"],
                  ["matmul", "9x31x64", "--fill", "special", "--epilogue", "bias,silu", "--layout", "tn"],
                  ["matmul", "9x31x64", "--misalign", "3", "--padding", "5", "--batch", "2", "--broadcast", "b"],
                  ["matmul", "9x31x64", "--epilogue", "beta=-0.5", "--in-place", "c", "--fill", "integers"],
                  ["matmul", "9x31x64", "--epilogue", "residual", "--in-place", "residual", "--math", "tf32"],
                  ["matmul", "40x31x640", "--determinism", "batch_invariant"],
                  ["matmul", "3x4x0"],
                  ["matmul", "0x4x4"],
                  ["grouped_matmul", "9x36x64", "--experts", "5", "--used", "3", "--dtype", "bf16", "--gate", "silu"],
                  ["grouped_matmul", "9x36x64", "--own-rows", "--sum", "--routing", "random", "--padding", "3"],
                  ["grouped_matmul", "33x48x256", "--grouping", "offsets", "--b-dtype", "q8_0", "--routing", "random"],
                  ["grouped_matmul", "33x48x64", "--grouping", "row_ids", "--packed", "--bias", "--activation", "gelu",
                   "--determinism", "batch_invariant"],
                  ["grouped_matmul", "9x36x64", "--grouping", "counts", "--layout", "nn", "--fill", "special", "--misalign", "3"],
                  ["grouped_matmul", "9x160x256", "--a-format", "f8_128", "--b-format", "f8_128", "--routing", "random"],
                  ["grouped_matmul", "9x160x256", "--dtype", "bf16", "--b-format", "gptq", "--own-rows"],
                  ["grouped_matmul", "9x36x0"],
                  ["matmul", "5x0x128", "--b-format", "awq"],
                  ["argmax", "3x1000", "--values"],
                  ["argmax", "2x50000", "--dtype", "bf16", "--index-dtype", "i32", "--index-offset", "-7"],
                  ["argmax", "7x300", "--fill", "special", "--values", "--misalign", "1", "--padding", "3",
                   "--determinism", "run_to_run"]):
        report = run(*words, cache=cache)
        assert report["check"]["ok"], (words, report["check"])
    split = run("matmul", "12x45x5123", "--split-k", 7, cache=cache)
    assert split["plan"]["launch"]["splits"] == 7, split["plan"]["launch"]

    # The compiler in a separate process: its program is found beside the library, and the library is not loaded here.
    apart = run("matmul", "33x65x131", "--compiler", "process", cache=cache)
    assert apart["cache_outcome"] == "compiled" and not apart["compiler_loaded"] and apart["check"]["ok"], apart

    # A request without a kernel on the CPU gives UNSUPPORTED, with its name.
    refused = subprocess.run([LATHE, "run", "matmul", "3x4x5", "--dtype", "f8e4m3", "--cache-dir", ""],
                             capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "UNSUPPORTED: matmul f8e4m3 a=n b=t m=3 n=4 k=5 batch=1 d=f32 on cpu" in refused.stderr, refused

    text = lathe("run", "matmul", "33x65x129", cache=cache)
    for word in ("first use", "disk hit", "compiler library not loaded", "GFLOP/s", "GB/s", "plan", "right: every element"):
        assert word in text, f"'{word}' is not in\n{text}"


def test_perf_map(cache):
    """perf's map has the name of a kernel, whether it was compiled or loaded from disk."""
    names = []
    for expected in ("compiled", "disk hit"):
        process = subprocess.Popen([LATHE, "run", "matmul", "6x30x70", "--json", "--repeat", "1", "--cache-dir", str(cache)],
                                   env={**os.environ, "LATHE_PERF_MAP": "1"}, stdout=subprocess.PIPE, text=True)
        path = pathlib.Path(f"/tmp/perf-{process.pid}.map")
        try:
            report = json.loads(process.communicate(timeout=120)[0])
            assert report["cache_outcome"] == expected, report
            lines = path.read_text().splitlines()
        finally:
            path.unlink(missing_ok=True)
        config = report["plan"]["config"]
        tile = "x".join(str(config[t]) for t in ("tile_m", "tile_n", "tile_k") if config.get(t))
        for line in lines:
            start, size, name = line.split(" ")
            assert int(start, 16) > 0 and int(size, 16) > 0, line
        matching = [name for name in (line.split(" ")[2] for line in lines)
                    if name.startswith(f"lathe_matmul_f32_f32_nt_m6_n30_k70_{config['kernel']}_{tile}")]
        assert len(matching) == 1, lines
        names += matching
    assert names[0] == names[1], names


def test_explain(cache):
    for words, target in ((["matmul", "64x4096x4096", "--dtype", "f16", "--facts", "h200"], "sm_90a"),
                          (["matmul", "64x4096x4096", "--dtype", "f16", "--facts", "mi300x", "--target", "gfx942"], "gfx942"),
                          (["argmax", "4x151936", "--facts", "h200"], "sm_90a")):
        plan = json.loads(lathe("explain", *words, "--json", cache=cache))
        assert plan["candidates"] and plan["config"]["kernel"], plan
        text = lathe("explain", *words, cache=cache)
        for word in ("choice", "predicted", target, "Legal candidates, best first", plan["config"]["kernel"]):
            assert word in text, f"'{word}' is not in\n{text}"
        rejected = [c for c in plan["candidates"] if c.get("rejection")]
        for candidate in rejected:
            assert candidate["rejection"] in text
    assert not list(pathlib.Path(cache).glob("*.lathe")), "explaining for a described device compiled something"


def test_dump(cache, out):
    lathe("dump", "matmul", "16x64x64", "--output", out, cache=cache)
    names = sorted(p.name for p in out.iterdir())
    assert any(n.startswith("00-") for n in names), names
    assert "llvm.ll" in names and "assembly.s" in names, names
    assert "linalg.matmul" in (out / names[0]).read_text() or "linalg." in (out / names[0]).read_text()
    assert (out / "assembly.s").stat().st_size > 100
    stage = lathe("dump", "matmul", "16x64x64", "--stage", "llvm.ll", cache=cache)
    assert "define" in stage and "==>" not in stage
    # --target without --facts uses a shipped device with this target.
    text = lathe("dump", "matmul", "16x64x64", "--target", "sm_86", "--stage", "kernel.ptx", cache=cache)
    assert ".target sm_86" in text, text
    # For a described GPU: text is printed, machine code is only mentioned.
    ptx = lathe("dump", "matmul", "64x256x128", "--dtype", "f16", "--facts", "h200", cache=cache)
    assert ".target sm_90a" in ptx and "==> kernel.ptx" in ptx
    amd = lathe("dump", "argmax", "4x1000", "--facts", "mi300x", cache=cache)
    assert "gfx942" in amd and re.search(r"==> kernel.hsaco\n\d+ bytes of machine code", amd)


def test_warm_and_cache(cache, shapes):
    shapes.write_text("model,layer,n,k\nt,one,96,64\nt,twin,96,64\nt,two,64,96\n")
    words = ["warm", shapes, "--m-max", 40]
    text = lathe(*words, cache=cache)
    classes, compiled = map(int, re.search(r"^(\d+) classes: (\d+) compiled, 0 loaded, ", text, re.MULTILINE).groups())
    assert classes == compiled == 2 * 18, f"16 exact, (16,32] and (32,64] for each of two weights:\n{text}"
    again = lathe(*words, cache=cache)
    assert f"{classes} classes: 0 compiled, {classes} loaded" in again and "compiler library never loaded" in again, again
    # After the warm-up, no M in the range compiles.
    for m in (1, 16, 17, 33, 40):
        assert run("matmul", f"{m}x96x64", cache=cache)["cache_outcome"] == "disk hit"
    # A single request, also with packed weights.
    for flags in ([], ["--packed"]):
        text = lathe("warm", "matmul", "3x80x48", *flags, cache=cache)
        assert re.search(r"^3 classes: 3 compiled, 0 loaded", text, re.MULTILINE), text
        assert run("matmul", "2x80x48", *flags, cache=cache)["cache_outcome"] == "disk hit"

    # The same for a described device, in the same cache.
    h200 = lathe("warm", shapes, "--m-max", 1, "--dtype", "f16", "--facts", "h200", cache=cache)
    assert re.search(r"^(\d+) classes: \1 compiled", h200, re.MULTILINE), h200

    # --target without --facts uses a shipped device. Devices with the same target share kernels.
    named = lathe("warm", shapes, "--m-max", 1, "--dtype", "f16", "--target", "sm_90a", "--facts", "h200.json", cache=cache)
    assert re.search(r"^(\d+) classes: 0 compiled, \1 loaded", named, re.MULTILINE), named
    alone = lathe("warm", shapes, "--m-max", 1, "--dtype", "bf16", "--target", "sm_89", cache=cache)
    assert re.search(r"^(\d+) classes: \1 compiled", alone, re.MULTILINE), alone
    # Also for an AMD device, without ROCm.
    amd = lathe("warm", shapes, "--m-max", 1, "--dtype", "f16", "--target", "gfx942", "--facts", "mi300x.json", cache=cache)
    assert re.search(r"^(\d+) classes: \1 compiled", amd, re.MULTILINE), amd

    listed = lathe("cache", "ls", cache=cache).splitlines()
    stats = lathe("cache", "stats", cache=cache)
    assert f"entries    {len(listed)}," in stats, stats
    assert any("cuda sm_90a" in line for line in listed), listed[:3]
    assert any("cuda sm_89" in line for line in listed), listed[:3]
    assert any("rocm gfx942" in line for line in listed), listed[:3]
    assert any("matmul f32" in line and "n 96 k 64" in line for line in listed), listed[:3]
    assert "0 defective" in lathe("cache", "verify", cache=cache)
    metrics = lathe("cache", "stats", "--prometheus", cache=cache)
    counts = [int(n) for n in re.findall(r'^lathe_cache_entries{op="matmul",target="[^"]+"} (\d+)$', metrics, re.MULTILINE)]
    assert len(counts) == 4 and sum(counts) == len(listed), metrics
    assert re.search(r'^lathe_cache_entries{op="matmul",target="cuda sm_89"}', metrics, re.MULTILINE), metrics
    held = sum(path.stat().st_size for path in pathlib.Path(cache).rglob("*.lathe"))
    assert sum(map(int, re.findall(r"^lathe_cache_entry_bytes{.*} (\d+)$", metrics, re.MULTILINE))) == held, metrics
    assert re.search(r"^lathe_cache_reads_total [1-9]", metrics, re.MULTILINE), metrics
    times = json.loads(lathe("cache", "top", "--json", "--count", 3, cache=cache))
    assert times["entries"] == len(listed) and len(times["kernels"]) == 3, times
    assert times["kernels"][0]["compile_milliseconds"] >= times["kernels"][1]["compile_milliseconds"] > 0, times
    assert sum(times["stages"].values()) > 0.9 * times["compile_milliseconds"] > 0, times

    # Export everything to a bundle. It replaces the directory, and can be imported again.
    bundle = pathlib.Path(f"{cache}.bundle")
    assert f"{len(listed)} kernels" in lathe("cache", "export", bundle, cache=cache)
    assert len(lathe("bundle", "ls", bundle, cache=cache).splitlines()) == len(listed)
    part = lathe("bundle", "create", f"{cache}.part", cache, "--target", "sm_89", cache=cache)
    assert f" {sum('cuda sm_89' in line for line in listed)} kernels" in part, part
    # If no kernel has the target, the old file stays, and the error lists the targets that exist.
    for words in (["cache", "export", f"{cache}.part"], ["bundle", "create", f"{cache}.part", str(cache)],
                  ["bundle", "merge", f"{cache}.part", str(bundle)]):
        result = subprocess.run([LATHE, *words, "--target", "sm_9", "--cache-dir", str(cache)], capture_output=True, text=True, timeout=60)
        assert result.returncode == 1 and "--target sm_9: no kernel in " in result.stderr, result
        assert "they have gfx942, sm_89, sm_90a, x86-64\n" in result.stderr, result
    assert not list(cache.parent.glob("*.draft"))
    # The name of a directory need not be UTF-8.
    odd = shutil.copytree(os.fsencode(cache), os.fsencode(cache) + b"-\xff")
    for words, environment in (([b"--cache-dir", odd], {}), ([], {"LATHE_CACHE_DIR": os.fsdecode(odd)})):
        subprocess.run([LATHE, "cache", "export", f"{cache}.odd", *words], check=True, capture_output=True, timeout=60,
                       env={**os.environ, **environment})
        assert pathlib.Path(f"{cache}.odd").read_bytes() == bundle.read_bytes()
    lathe("bundle", "merge", f"{cache}.merged", bundle, f"{cache}.part", cache=cache)
    assert pathlib.Path(f"{cache}.merged").read_bytes() == bundle.read_bytes()
    shipped = run("matmul", "17x96x64", "--bundles", bundle, cache="")
    assert shipped["cache_outcome"] == "bundle hit" and not shipped["compiler_loaded"], shipped

    held = sum(path.stat().st_size for path in pathlib.Path(cache).rglob("*.lathe"))
    kept = lathe("cache", "prune", "--to", f"{held // 2048}K", cache=cache)
    left = lathe("cache", "ls", cache=cache).splitlines()
    assert f"removed {len(listed) - len(left)} entries" in kept and 0 < len(left) < len(listed), kept
    files = [[re.search(r"\w+\.lathe", line)[0] for line in lines] for lines in (left, listed)]
    assert files[0] == files[1][-len(left):], "the last entries of the list, the most recently used, must stay"
    assert f"{len(listed) - len(left)} kernels imported, {len(left)} already there" in lathe("cache", "import", bundle, cache=cache)
    assert f"removed {len(listed)} entries" in lathe("cache", "clear", cache=cache)
    assert lathe("cache", "ls", cache=cache) == ""


def test_tune(cache, path, output):
    """Tuning records are written, shown, used and shipped. If a class cannot be tuned, the error says why."""
    text = lathe("tune", "matmul", "7x96x64", "--top", 3, "--time", 2, "--output", output, cache=cache)
    rows = re.findall(r"^  ([* ])  +([0-9.e]+ [num]?s) +([0-9.e]+ [num]?s) +([0-9.]+)  ", text, re.MULTILINE)
    # The first three candidates, and the first of each ukernel that is not among them.
    kinds, wanted = set(), []
    for c in json.loads(lathe("explain", "matmul", "7x96x64", "--json", cache=""))["candidates"]:
        if c["legal"] and (c["rank"] <= 3 or c["config"]["ukernel"]["function"] not in kinds):
            wanted.append(c["rank"])
        kinds.add(c["config"]["ukernel"]["function"])
    assert len(wanted) > 3, "no ukernel here"
    assert len(rows) == len(wanted) and sum(mark == "*" for mark, *_ in rows) == 1 and rows[0][3] == "1.000", text
    assert re.search(r"^1 class: [01] replaced, [01] confirmed; (\d+) candidates, .*; stored in .* and ", text, re.MULTILINE), text
    assert "records    0 of plans, 1 of tuning" in lathe("cache", "stats", cache=cache)
    assert "tuned  cpu" in lathe("cache", "ls", "--records", cache=cache)
    explained = json.loads(lathe("explain", "matmul", "7x96x64", "--json", cache=cache))
    assert explained["chosen_by"] == "tuning record", explained["chosen_by"]
    assert [c["rank"] for c in explained["candidates"] if "measured_seconds" in c] == wanted, wanted
    assert re.search(r"^  ukernel +[0-9.e]+ [num]?s +[0-9.e]+ [num]?s  ", lathe("explain", "matmul", "7x96x64", cache=cache), re.MULTILINE)

    # A process that gets the file uses its record. If the file is changed, its digest is wrong and the record is
    # ignored.
    tuning = json.loads(output.read_text())
    assert len(tuning["records"]) == 1 and len(tuning["records"][0]["measured"]) == len(wanted), tuning
    handed = json.loads(lathe("explain", "matmul", "7x96x64", "--json", "--tuning", output, cache=""))
    assert handed["chosen_by"] == "tuning record" and handed["rank"] == explained["rank"], handed["rank"]
    tuning["records"][0]["splits"] = 2  # the digest does not match any more
    output.write_text(json.dumps(tuning))
    result = subprocess.run([LATHE, "explain", "matmul", "7x96x64", "--json", "--tuning", str(output), "--cache-dir", ""],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0 and "digest" in result.stderr, result.stderr
    assert json.loads(result.stdout)["chosen_by"] == "oracle"

    # A run stores a record of its plan. A bundle contains both kinds of records.
    run("matmul", "9x96x64", cache=cache)
    bundle = pathlib.Path(f"{cache}.bundle")
    assert "2 records of plans and tuning" in lathe("cache", "export", bundle, cache=cache)
    assert len(lathe("bundle", "ls", bundle, "--records", cache="").splitlines()) == 2
    shipped = json.loads(lathe("explain", "matmul", "7x96x64", "--json", "--bundles", bundle, cache=""))
    assert shipped["chosen_by"] == "tuning record", shipped["chosen_by"]
    assert "2 records imported" in lathe("cache", "import", bundle, cache=f"{cache}.other")

    path.write_text(json.dumps({"lathe_manifest": 1, "classes": [
        {"op": "argmax", "a": "f32", "d": "i64", "row_lo": 1, "row_hi": 1024},
        {"op": "matmul", "a": "f32", "b": "f32", "d": "f32", "trans_b": 1, "n": 96, "k": 64, "m_max": 2}]}))
    many = lathe("tune", path, "--target", "cpu", "--top", 2, "--time", 1, "--json", cache=cache)
    assert len(json.loads(many)) == 3, many

    def fails(*words, code):
        result = subprocess.run([LATHE, "tune", *map(str, words), "--cache-dir", ""], capture_output=True, text=True, timeout=120)
        assert result.returncode == code, result
        return result.stderr

    assert "a described device cannot be measured" in fails("matmul", "1x1x1", "--target", "sm_90a", code=2)
    assert "batch_invariant has one numeric recipe" in fails("matmul", "4x96x64", "--determinism", "batch_invariant", code=1)
    assert "its candidate is forced" in fails("matmul", "4x96x64", "--candidate", 1, code=1)
    assert "/nonexistent" in fails("matmul", "4x96x64", "--top", 1, "--time", 1, "--output", "/nonexistent/t.json", code=1)


def test_calibrate(cache, output):
    """Facts are measured, shown, stored beside the cache and in a file, and used by later commands."""
    before = json.loads(lathe("devices", "--json", cache=cache))[0]
    assert "calibration" not in before and {f["origin"] for f in before["facts"].values()} == {"system", "table"}, before
    text = lathe("calibrate", "--time", 500, "--output", output, cache=cache)
    assert re.search(r"^clock_hz +[0-9.]+ GHz +[0-9.]+ GHz  (system|table) +[^ ]", text, re.MULTILINE), text
    assert re.search(r"^l1_bytes_per_second +[0-9.e+]+ GB/s +-  -$", text, re.MULTILINE), text
    assert f"stored in {cache}/calibration.json and {output}" in text, text
    after = json.loads(lathe("devices", "--json", cache=cache))[0]
    measured = {name for name, fact in after["facts"].items() if fact["origin"] == "measured"}
    assert {"clock_hz", "fma_units", "f32_products_per_second", "l1_bytes_per_second"} <= measured, measured
    assert {"cores", "l2_bytes"} <= set(after["facts"]) - measured, measured
    assert after["calibration"].startswith("measured with ") and after["calibration"].endswith("/calibration.json"), after
    listed = lathe("devices", cache=cache)
    assert re.search(r"^ +clock_hz +[0-9.e+]+ +measured +one core", listed, re.MULTILINE), listed
    assert re.search(r"^ +cores +[0-9]+ +system +sched_getaffinity", listed, re.MULTILINE), listed
    # A process that gets the file uses it. An entry of another machine is ignored with the reason.
    handed = json.loads(lathe("devices", "--json", "--calibration", output, cache=""))[0]
    assert handed["facts"] == after["facts"], handed
    foreign = json.loads(output.read_text())
    foreign["machines"][0]["machine"]["stepping"] += 1
    output.write_text(json.dumps(foreign))
    assert re.search(r"^ +calibration not used: .*stepping is \d+, not \d+$",
                     lathe("devices", "--calibration", output, cache=""), re.MULTILINE)
    explained = json.loads(lathe("explain", "matmul", "7x96x64", "--json", cache=cache))
    assert all("origin" not in fact for fact in explained["facts"]["facts"].values()), explained["facts"]
    assert json.loads(lathe("calibrate", "--time", 200, "--json", cache=cache))["stored"] == [f"{cache}/calibration.json"]

    def fails(*words, code, directory=""):
        result = subprocess.run([LATHE, "calibrate", *map(str, words), "--cache-dir", directory], capture_output=True,
                                text=True, timeout=120)
        assert result.returncode == code and result.stdout == "", result
        return result.stderr

    assert "a described device cannot be measured" in fails("--facts", "h200", code=2)
    assert "a described device cannot be measured" in fails("--target", "sm_90a", code=2)
    assert "cuda:0 cannot be measured" in fails("--device", "cuda:0", code=1)
    kept = pathlib.Path(f"{cache}/calibration.json").read_text()
    assert "there was no time to measure anything, so nothing was stored" in fails("--time", 1, code=1, directory=str(cache))
    assert pathlib.Path(f"{cache}/calibration.json").read_text() == kept
    assert "not stored, because there is no calibration file: set a cache directory or give --output FILE" in lathe("calibrate", "--time", 200, cache="")
    assert "/nonexistent" in fails("--output", "/nonexistent/t.json", code=1)
    assert "--time" in fails("--time", 10001, code=2)


def test_hit_rate(cache):
    """Every lookup counts: the first one compiles, and the next two find its entry."""
    for outcome in ("compiled", "disk hit", "disk hit"):
        assert run("argmax", "3x100", cache=cache)["cache_outcome"] == outcome
    stats = lathe("cache", "stats", cache=cache)
    assert "hits       2, entries written 1: 66.7% of the lookups were hits\n" in stats, stats
    counts = json.loads(lathe("cache", "stats", "--json", cache=cache))
    assert (counts["hits"], counts["made"]) == (2, 1) and abs(counts["hit_rate"] - 2 / 3) < 1e-9, counts


def test_warm_manifest(cache, path):
    """A manifest needs no other flags. A warm-up that ends early reports what is left. An error in a manifest has a
    location."""
    weight = {"op": "matmul", "a": "bf16", "b": "bf16", "d": "bf16", "trans_b": 1, "n": 96, "k": 64, "m_max": 3, "name": "up"}
    argmax = {"op": "argmax", "a": "f32", "d": "i64", "m_max": 1}
    path.write_text(json.dumps({"lathe_manifest": 1, "about": {"model": "two"}, "classes": [weight, argmax]}))
    assert "6 classes: 6 compiled, 0 loaded" in lathe("warm", path, "--jobs", 2, cache=cache)
    assert run("matmul", "2x96x64", "--dtype", "bf16", cache=cache)["cache_outcome"] == "disk hit"
    assert run("argmax", "5x20000", cache=cache)["cache_outcome"] == "disk hit"
    assert "0 compiled, 6 loaded" in lathe("warm", path, "--no-compile", cache=cache)

    # On a terminal: a bar with the rate and the time left, which is redrawn in place. Elsewhere: lines.
    ours, theirs = pty.openpty()
    process = subprocess.Popen([LATHE, "warm", str(path), "--cache-dir", str(cache)], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        drawn += piece
    os.close(ours)
    assert process.wait(timeout=120) == 0
    process.stdout.close()
    assert re.search(rb"\r\x1b\[K\[#{24}\]  6/6  [0-9.]+/s  0:00 left  ", drawn), drawn

    def fails(*words, code):
        result = subprocess.run([LATHE, "warm", str(path), *words, "--cache-dir", ""], capture_output=True, text=True, timeout=120)
        assert result.returncode == code, result
        return result.stdout, result.stderr

    out, err = fails("--no-compile", code=1)
    assert "0 compiled, 0 loaded, 6 failed" in out and "up: matmul bf16 a=n b=t m=3 n=96 k=64 batch=1 on cpu: MISS" in err, (out, err)
    assert "is a manifest" in fails("--dtype", "f16", code=2)[1]
    path.write_text('{"lathe_manifest": 1,\n "classes": [{"op": "matmul"}]}')
    assert "classes[0]: \"n\" must be at least 1" in fails(code=2)[1]
    path.write_text('{"lathe_manifest": 1,\n "classes": ]}')
    assert "line 2" in fails(code=2)[1]

    # After Ctrl-C the current kernels are finished, no new ones are started, and the summary says so.
    path.write_text(json.dumps({"lathe_manifest": 1, "classes": [dict(weight, n=n, m_max=9000) for n in range(100, 200)]}))
    process = subprocess.Popen([LATHE, "warm", str(path), "--cache-dir", ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stderr.readline()  # the first line of progress
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "CANCELLED" in err, (out, err)
    classes, compiled, left = map(int, re.search(r"^(\d+) classes: (\d+) compiled, 0 loaded, (\d+) not started", out, re.MULTILINE).groups())
    assert classes == 2200 == compiled + left and compiled >= 1, out


def test_bench(cache):
    def bench(*words):
        return json.loads(lathe("bench", *words, "--json", "--seconds", "0.05", cache=cache))

    report = bench("matmul", "4x300x500", "--pool", "2", "--seed", "3")
    assert report["bytes"] == 4 * (4 * 500 + 300 * 500 + 4 * 300) and report["copies"] == 4, report["copies"]  # of 613 kB
    assert report["plan"]["config"]["kernel"] and report["cache_bytes"] > 0 and report["seed"] == 3
    ours, *libraries = report["entrants"]
    assert ours["name"] == "lathe" and ours["time_over_lathe"] == 1, ours
    explained = json.loads(lathe("explain", "matmul", "4x300x500", "--json", "--external", "allow", cache=cache))
    here = {f["library"] for f in explained["external"]["found"] if not f["absent"]}
    assert {e["name"] for e in libraries} | set(report["refused"]) == here, (libraries, here)
    for entrant in report["entrants"]:
        low, high = entrant["quartiles_seconds"]
        assert 0 < low <= entrant["median_seconds"] <= high and entrant["rounds"] >= 7 and entrant["check"]["ok"], entrant
        assert abs(entrant["gb_per_second"] * entrant["median_seconds"] * 1e9 / report["bytes"] - 1) < 1e-6, entrant
    for flags in ([], ["--packed"], ["--packed", "--b-dtype", "q8_0", "--math", "int8"]):
        assert bench("matmul_argmax", "2x500x64", *flags)["entrants"][0]["check"]["ok"]
    # One token reads two of the eight experts, and no library serves a grouped product.
    experts = bench("grouped_matmul", "1x300x500", "--pool", "2")
    assert experts["bytes"] == 4 * (500 + 2 * 300 * 500 + 2 * 300), experts["bytes"]
    assert experts["entrants"][0]["check"]["ok"] and len(experts["entrants"]) == 1, experts["entrants"]
    assert all(why == "it has no routine for this op" for why in experts["refused"].values()), experts["refused"]
    # The entrant "lathe" always runs Lathe's own kernels, whatever --external says.
    own = bench("matmul", "4x300x500", "--external", "prefer")
    assert own["plan"]["external"]["use"] == "off" and own["plan"]["config"]["external"]["library"] == "", own["plan"]["config"]
    assert len(own["entrants"]) == len(report["entrants"]), own["entrants"]
    for library, why in bench("argmax", "3x1000", "--dtype", "bf16")["refused"].items():
        assert why == "it has no routine for this op", (library, why)
    assert "copies of" in lathe("bench", "argmax", "3x1000", "--seconds", "0.05", cache=cache)
    for words, code, text in ((["matmul", "0x4x4"], 1, "nothing to time"), (["matmul", "4x4x4", "--seconds", "soon"], 2, "a number above 0 and up to 3600"),
                              (["matmul", "4x4x4", "--device", "cuda:77"], 1, "cuda")):
        result = subprocess.run([LATHE, "bench", *words, "--cache-dir", ""], capture_output=True, text=True, timeout=60)
        assert result.returncode == code and text in result.stderr, (words, result)


with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    test_seeds(root / "seeds")
    test_run(root / "run")
    test_bench(root / "bench")
    test_perf_map(root / "perf")
    test_explain(root / "explain")
    test_dump(root / "dump", root / "ir")
    test_warm_and_cache(root / "warm", root / "shapes.csv")
    test_hit_rate(root / "hits")
    test_warm_manifest(root / "manifest", root / "manifest.json")
    test_tune(root / "tune", root / "tune.json", root / "tuning.json")
    test_calibrate(root / "calibrate", root / "machines.json")
print("verbs work")
