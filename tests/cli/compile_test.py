"""Tests `lathe compile`, `lathe plan` and `lathe kernel-bench` on payloads: the steps that are read, the kernels that
are compiled, and the location in the error if something is not supported.

usage: compile_test.py LATHE PAYLOADS
"""
import csv
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

LATHE = sys.argv[1]
PAYLOADS = pathlib.Path(sys.argv[2])


def compile_payload(path, *flags, cache, code=0):
    result = subprocess.run([LATHE, "compile", str(path), *map(str, flags), "--cache-dir", str(cache)],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == code, f"{path} {flags}: exit {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout if code == 0 else result.stderr


def last_line(text):
    return text.strip().splitlines()[-1]


def test_open_rows(cache):
    # Each of the two weights has four classes, for M from 1 to 4.
    text = compile_payload(PAYLOADS / "mlp.mlir", "--m-max", 4, cache=cache)
    assert "mlp.mlir:9:8  @mlp  matmul f32 ?x256x64 nt" in text, text
    assert "mlp.mlir:23:8  @mlp  matmul f32 ?x64x256 nt" in text, text
    assert last_line(text).startswith("8 classes: 8 compiled, 0 loaded"), text
    assert last_line(compile_payload(PAYLOADS / "mlp.mlir", "--m-max", 4, cache=cache)).startswith(
        "8 classes: 0 compiled, 8 loaded")
    # An equal request from the command line has the same class.
    request = ["run", "matmul", "3x256x64", "--epilogue", "bias,gelu", "--json", "--repeat", "1", "--cache-dir", str(cache)]
    report = json.loads(subprocess.run([LATHE, *request], capture_output=True, text=True, check=True).stdout)
    assert report["cache_outcome"] == "disk hit" and report["check"]["ok"], report


def test_known_rows(cache):
    text = compile_payload(PAYLOADS / "heads_scores.mlir", cache=cache)
    assert "matmul f16 128x128x64 nt batch 8" in text and last_line(text).startswith("1 class: 1 compiled"), text


def test_argmax_joins_its_matmul(cache):
    text = compile_payload(PAYLOADS / "lm_head.mlir", "--m-max", 2, "--facts", "h200", cache=cache)
    assert "matmul_argmax bf16 ?x1000x96 nt" in text and "0 failed" not in text, text
    program = json.loads(compile_payload(PAYLOADS / "lm_head.mlir", "--json", cache=cache))
    (step,) = program["functions"][0]["steps"]
    assert step["op"] == "matmul_argmax" and step["logits"] == "f32", step
    assert program["functions"][0]["results"] == [step["indices"]["value"]], program


def test_split_k(cache):
    payload, h200 = PAYLOADS / "split_k.mlir", ("--target", "sm_90a", "--facts", "h200")
    text = compile_payload(payload, "--facts", "h200", cache=cache)
    assert "matmul f32 123x456x51234 nn" in text and " splits " in text and " splits 77 " not in text, text
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "params.json"
        for device in ((), h200):
            for splits in (76, 77, 78):
                text = compile_payload(payload, "--split-k", splits, *device, cache=cache)
                assert f" splits {splits} " in text and last_line(text).startswith("1 class: 1 compiled" if splits == 76 else "1 class: "), text
            # A parameter file can contain a number of splits that the oracle would not choose.
            subprocess.run([LATHE, "plan", str(payload), "--split-k", "77", "--out", str(path), *device], check=True,
                           capture_output=True, text=True, timeout=120)
            (entry,) = json.loads(path.read_text())["entries"]
            assert entry["splits"] == 77, entry
            text = compile_payload(payload, "--params", path, *device, cache=cache)
            assert " splits 77 " in text and last_line(text).startswith("1 class: 0 compiled, 1 loaded"), text
        assert "--split-k cannot be used with --params" in compile_payload(payload, "--params", path, "--split-k", 77, cache=cache, code=2)
    # kernel-bench uses the factor, and says which payload cannot.
    for name, code, words in (("split_k", 0, "1 of 1 right"), ("lm_head", 1, "split-K: partial sums cannot be compared")):
        result = subprocess.run([LATHE, "kernel-bench", str(PAYLOADS / f"{name}.mlir"), "--split-k", "77", "--repeat", "1",
                                 "--cache-dir", str(cache)], capture_output=True, text=True, timeout=120)
        assert result.returncode == code and words in result.stdout, result
    assert "argmax.mlir is a matmul" in compile_payload(PAYLOADS / "argmax.mlir", "--split-k", 2, cache=cache, code=2)
    # With open rows, the factor applies to every class of the weight.
    text = compile_payload(PAYLOADS / "mlp.mlir", "--m-max", 2, "--split-k", 3, cache=cache)
    assert text.count(" splits 3 ") == 2 and last_line(text).startswith("4 classes: 4 compiled"), text
    assert "split-K" in compile_payload(PAYLOADS / "lm_head.mlir", "--m-max", 2, "--split-k", 3, cache=cache, code=1)


def test_params(cache):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "params.json"
        payload = PAYLOADS / "mlp.mlir"

        def plan(*flags):
            subprocess.run([LATHE, "plan", str(payload), "--out", str(path), "--facts", "h200", *flags], check=True,
                           capture_output=True, text=True, timeout=120)
            return json.loads(path.read_text())

        def compiled(params, code=0):
            path.write_text(json.dumps(params))
            return compile_payload(payload, "--params", path, "--facts", "h200", cache=cache, code=code)

        params = plan("--m-max", "3")
        entries = params["entries"]
        assert [(e["step"], e["rows"]) for e in entries] == [(s, m) for s in (0, 1) for m in (1, 2, 3)], entries
        assert last_line(compiled(params)).startswith("6 classes: 6 compiled"), params
        assert last_line(compiled(params)).startswith("6 classes: 0 compiled, 6 loaded"), params
        # The config of another candidate gives another kernel. A config of no candidate is an error that names the
        # entry.
        explained = json.loads(subprocess.run(
            [LATHE, "explain", "matmul", "3x256x64", "--epilogue", "bias,gelu", "--facts", "h200", "--json"], check=True,
            capture_output=True, text=True).stdout)
        other = next(c for c in explained["candidates"] if c["legal"] and c["config"] != entries[2]["config"])
        changed = json.loads(json.dumps(params))
        changed["entries"][2].update(config=other["config"], splits=other["splits"])
        assert last_line(compiled(changed)).startswith("6 classes: 1 compiled, 5 loaded"), other
        for field, value, word in (("config", {**other["config"], "tile_m": 7}, "no candidate"), ("step", 2, "step 2"),
                                   ("class", entries[0]["class"], "the class differs"), ("rows", 0, "fields"),
                                   ("extra", 1, "fields")):
            wrong = json.loads(json.dumps(params))
            wrong["entries"][2][field] = value
            error = compiled(wrong, code=2)
            assert "params.json: entry 2:" in error and word in error, error
        assert "not a parameter file" in compiled({"lathe_params": 2, "entries": []}, code=2)
        assert "params.json: there is no entry for step 1, at " in compiled(dict(params, entries=entries[:3]), code=2)
        assert "params.json: there is no entry for step 0, at " in compiled(dict(params, entries=[]), code=2)
        again = compiled(dict(params, entries=entries + entries[1:2]), code=2)
        assert "params.json: entry 6: entry 1 has the same step and rows" in again, again
        unused = dict(params, parameters={"rows": 3})
        assert "params.json:1: parameter 'rows' is used by no pipeline" in compiled(unused, code=2)
        assert params["target"]["arch"] == "sm_90a", params["target"]
        of_another = dict(params, target=dict(params["target"], arch="sm_80"))
        assert "params.json: the file is for cuda sm_80" in compiled(of_another, code=2)
        for target in (dict(params["target"], backend=5), dict(params["target"], arch=None), 5):
            assert "params.json: not a parameter file" in compiled(dict(params, target=target), code=2)
        path.write_text(json.dumps(params))
        for verb in ("run", "dump"):
            result = subprocess.run([LATHE, verb, "matmul", "4x4x4", "--params", str(path)], capture_output=True, text=True, timeout=120)
            assert result.returncode == 2 and "the entries are for the steps of a payload" in result.stderr, result


def test_kernel_bench_params(cache):
    """kernel-bench runs exactly the candidates that the file lists, and no others."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "params.json"

        def bench(*flags, payload=PAYLOADS / "mlp.mlir", kept="rest"):
            return subprocess.run([LATHE, "kernel-bench", str(payload), "--rows", "3", "--repeat", "1",
                                   "--cache-dir", str(pathlib.Path(cache) / kept), *map(str, flags)],
                                  capture_output=True, text=True, timeout=120)

        subprocess.run([LATHE, "plan", str(PAYLOADS / "mlp.mlir"), "--m-max", "3", "--out", str(path)], check=True,
                       capture_output=True, timeout=120)
        params = json.loads(path.read_text())
        for entry in params["entries"]:
            k, n = entry["class"]["k"], entry["class"]["n"]
            epilogue = ["--epilogue", "bias,gelu"] if entry["class"]["activation"] == "gelu" else []
            explained = json.loads(subprocess.run([LATHE, "explain", "matmul", f"{entry['rows']}x{n}x{k}", *epilogue, "--json"],
                                                  check=True, capture_output=True, text=True).stdout)
            other = next(c for c in explained["candidates"] if c["legal"] and c["config"] != entry["config"])
            entry.update(config=other["config"], splits=other["splits"])
        path.write_text(json.dumps(params))
        text = compile_payload(PAYLOADS / "mlp.mlir", "--params", path, cache=pathlib.Path(cache) / "all")
        assert last_line(text).startswith("6 classes: 6 compiled, 0 loaded"), text

        def kernels(name, *flags):
            result = bench(*flags, kept=name)
            assert result.returncode == 0 and "1 of 1 right" in result.stdout, result
            return {file.name for file in (pathlib.Path(cache) / name).glob("*.lathe")}

        all_listed = {file.name for file in (pathlib.Path(cache) / "all").glob("*.lathe")}
        listed = kernels("listed", "--params", path)
        assert len(all_listed) == 6 and len(listed) == 2 and listed < all_listed, (all_listed, listed)
        assert not listed & kernels("own"), listed
        params["entries"] = [e for e in params["entries"] if e["rows"] != 3]
        path.write_text(json.dumps(params))
        result = bench("--params", path)
        assert result.returncode == 1 and "params.json: there is no entry for step 0 with 3 open rows, at " in result.stdout, result
        assert "is a directory" in bench("--params", path, payload=PAYLOADS).stderr
        assert "--split-k cannot be used with --params" in bench("--params", path, "--split-k", 2).stderr


def check_peers(cache, table, bars, output):
    """Each external library of this machine has a column and a bar. The libraries compute f32 matmuls and no argmax."""
    explained = json.loads(subprocess.run([LATHE, "explain", "matmul", "64x64x64", "--json", "--external", "allow", "--cache-dir", str(cache)],
                                          check=True, capture_output=True, text=True).stdout)
    found = [library["library"] for library in explained["external"]["found"] if not library["absent"]]
    columns = [c[:-len("_median_seconds")] for c in table["square"] if c.endswith("_median_seconds")]
    assert columns == found, (columns, found)
    chart = bars[:bars.index("Bandwidth on cpu (GB/s)")]
    at = bars.index("square")
    for number, library in enumerate(found):
        seconds = float(table["square"][f"{library}_median_seconds"])
        bar = bars[at + 2 + number]  # after the name and Lathe's bar
        assert seconds > 0 and bar == f"{2 * 1024**3 / seconds / 1e9:.4g}", (library, seconds, bars[at:])
        assert table["argmax"][f"{library}_median_seconds"] == "", table["argmax"]
        assert chart.count(library) == 1, chart  # in the legend
    if not found:
        return
    assert chart.count("Lathe") == 1, chart
    # The ratio is the fastest library's time over Lathe's, in the table, in the CSV file and in the last lines.
    ratios = {}
    for name, row in table.items():
        seconds = [float(row[f"{library}_median_seconds"]) for library in found if row[f"{library}_median_seconds"]]
        assert (row["ratio_to_fastest_peer"] == "") == (not seconds), row
        if seconds:
            ratios[name] = min(seconds) / float(row["median_seconds"])
            assert abs(float(row["ratio_to_fastest_peer"]) / ratios[name] - 1) < 1e-3, row
            assert re.search(rf"^{name} .* {ratios[name]:.2f}x ", output, re.M), (name, ratios[name], output)
    mean = math.exp(sum(math.log(ratio) for ratio in ratios.values()) / len(ratios))
    worst = min(ratios, key=ratios.get)
    wanted = (f"speed of Lathe over the fastest library: {mean:.2f}x in the geometric mean of {len(ratios)} payloads, "
              f"worst {ratios[worst]:.2f}x ({worst})\n")
    assert wanted in output, (wanted, output)


def test_steps_on_the_host(cache):
    text = compile_payload(PAYLOADS / "lower_triangular.mlir", cache=cache)
    assert "elementwise f32 192x192\n  rows " in text and "on the host" not in text, text
    assert last_line(text).startswith("2 classes: 2 compiled"), text
    with tempfile.TemporaryDirectory() as folder:
        apart = pathlib.Path(folder) / "apart.mlir"
        apart.write_text(APART.replace("tensor<?xf32>", "tensor<40000xf32>"))
        text = compile_payload(apart, cache=cache)
        assert "elementwise on the host: an input has an index that is not a single loop\n  no kernel: " in text, text


def test_recorded_programs(cache):
    """A recording is a manifest that contains the elementwise programs, so another process can compile them."""
    with tempfile.TemporaryDirectory() as folder:
        met, other = f"{folder}/met.json", f"{folder}/cache"
        subprocess.run([LATHE, "kernel-bench", str(PAYLOADS / "scaled_mask.mlir"), "--repeat", "1", "--cache-dir", str(cache)],
                       env={**os.environ, "LATHE_RECORD": met}, check=True, capture_output=True, timeout=120)
        programs = [c["text"] for c in json.loads(pathlib.Path(met).read_text())["classes"] if c["op"] == "elementwise"]
        assert len(programs) == 2 and "arith.mulf" in programs[0] and "arith.cmpi" in programs[1], programs

        def lathe(*words):
            return subprocess.run([LATHE, *words, "--cache-dir", other], check=True, capture_output=True, text=True, timeout=120)

        assert last_line(lathe("warm", met).stdout).endswith("compiler library loaded")
        assert lathe("cache", "ls").stdout.count("elementwise f16 program ") == 2
        # A bundle with these kernels is enough for another process.
        lathe("bundle", "create", f"{folder}/all.bundle", other)
        report = subprocess.run([LATHE, "warm", met, "--no-compile", "--cache-dir", ""], capture_output=True, text=True, timeout=120,
                                env={**os.environ, "LATHE_BUNDLES": f"{folder}/all.bundle"})
        assert report.returncode == 0 and "0 compiled" in last_line(report.stdout), report


def test_kernel_bench(cache):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def bench(path, *flags):
            return subprocess.run([LATHE, "kernel-bench", str(path), "--repeat", "1", "--cache-dir", str(cache), *map(str, flags)],
                                  capture_output=True, text=True, timeout=280)

        count = len(list(PAYLOADS.glob("*.mlir")))
        assert count >= 20
        result = bench(PAYLOADS, "--rows", 7, "--csv", folder / "t.csv", "--svg", folder / "t.svg")
        assert result.returncode == 0 and last_line(result.stdout) == f"{count} of {count} right", result
        assert "compared to text" in result.stdout and "not compared" not in result.stdout, result.stdout
        with open(folder / "t.csv") as f:
            table = {row["payload"]: row for row in csv.DictReader(f)}
        assert len(table) == count and all(row["right"] == "1" and int(row["checked"]) > 0 and int(row["judged"]) > 0 for row in table.values()), table
        assert float(table["square"]["gflops"]) > 0 and table["mlp"]["steps"].count("matmul") == 2, table
        # One chart for matmuls in GFLOP/s, and one for the other payloads in GB/s.
        bars = [bar.text for bar in xml.etree.ElementTree.parse(folder / "t.svg").findall("{*}text")]
        assert bars.index("square") < bars.index("Bandwidth on cpu (GB/s)") < bars.index("argmax"), bars
        assert "Matmuls on cpu (GFLOP/s)" in bars and "argmax" not in bars[:bars.index("Bandwidth on cpu (GB/s)")], bars
        argmax = table["argmax"]
        wanted = (64 * 32000 * 4 + 64 * 12) / float(argmax["median_seconds"]) / 1e9
        assert abs(float(argmax["gbytes_per_second"]) / wanted - 1) < 1e-4 and argmax["gflops"] == "0", argmax
        assert bars[bars.index("argmax") + 1] == f"{wanted:.4g}", bars
        # Steps on the host are timed separately from kernels.
        for name, row in table.items():
            on_host = "on the host" in row["steps"] or name == "argmax_middle"
            assert (float(row["host_seconds"]) > 0) == on_host, row
        masked = table["lower_triangular"]
        wanted = 2 * 192**3 / float(masked["median_seconds"]) / 1e9
        assert abs(float(masked["gflops"]) / wanted - 1) < 1e-4, masked
        check_peers(cache, table, bars, result.stdout)

        (folder / "sin.mlir").write_text((PAYLOADS / "mlp.mlir").read_text().replace("math.erf", "math.sin"))
        result = bench(folder)
        assert result.returncode == 1 and "sin.mlir:11:8:" in result.stdout and last_line(result.stdout) == "0 of 1 right", result
        # If the text gives an open extent elsewhere, --rows does not change it.
        (folder / "sin.mlir").write_text(TALL)
        result = bench(folder, "--rows", 2)
        assert result.returncode == 0 and last_line(result.stdout) == "1 of 1 right", result
        # If the text cannot be evaluated, right steps are not enough.
        square = (PAYLOADS / "square.mlir").read_text()
        constant = "  %numbers = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\n  %zero ="
        assert "  %zero =" in square, square
        (folder / "sin.mlir").write_text(square.replace("  %zero =", constant, 1))
        result = bench(folder)
        assert result.returncode == 1 and last_line(result.stdout) == "0 of 1 right", result
        assert " unchecked " in result.stdout and "the results were not compared with the text: " in result.stdout, result
        # No library is timed if there is no matmul, or if K is 0, where the result is the accumulator.
        for text in (APART.replace("tensor<?xf32>", "tensor<40000xf32>"), NOTHING_REDUCED):
            (folder / "sin.mlir").write_text(text)
            result = bench(folder, "--csv", folder / "none.csv")
            assert result.returncode == 0 and last_line(result.stdout) == "1 of 1 right", result
            with open(folder / "none.csv") as f:
                (row,) = csv.DictReader(f)
            assert all(seconds == "" for column, seconds in row.items() if column.endswith("_median_seconds")), row
        # A payload that does not fit in memory is refused before memory is allocated, and the others run.
        large = (PAYLOADS / "bias_broadcast.mlir").read_text().replace("128x", "3000000000x")
        (folder / "large.mlir").write_text(large)
        (folder / "sin.mlir").write_text((PAYLOADS / "bias_broadcast.mlir").read_text())
        result = bench(folder)
        assert result.returncode == 1 and last_line(result.stdout) == "1 of 2 right", result
        assert re.search(r"refused: @\w+ needs \S+ GB of memory, and this machine has", result.stdout), result
        assert bench(folder / "nowhere").returncode == 2


def test_pipelines(cache):
    """A user's pipeline that makes its tiles by a transform schedule with parameters from the plan."""
    source = PAYLOADS.parent.parent / "examples" / "pipelines"

    def lathe(*arguments, code=0):
        result = subprocess.run([LATHE, *map(str, arguments), "--cache-dir", str(cache)], capture_output=True, text=True, timeout=120)
        assert result.returncode == code, f"{arguments}: exit {result.returncode}\n{result.stdout}{result.stderr}"
        return result.stdout if code == 0 else result.stderr

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        yaml, tile, params = folder / "p.yaml", folder / "tile.mlir", folder / "p.json"
        original = (source / "matmul.cpu.yaml").read_text()
        yaml.write_text(original)
        tile.write_text((source / "tile.mlir").read_text())

        def outcome(shape, *flags):
            report = json.loads(lathe("run", "matmul", shape, "--json", "--repeat", 1, *flags))
            assert report["check"]["ok"], report
            return report["cache_outcome"]

        # Results are right at tile edges and in a batch. The kernels have other keys than those of the built-in
        # pipeline.
        for shape, more in (("37x130x96", ["--epilogue", "bias,relu"]), ("5x64x32", ["--batch", "3"]), ("64x48x96", [])):
            assert outcome(shape, *more, "--pipeline", yaml) == "compiled"
            assert outcome(shape, *more, "--pipeline", yaml) == "disk hit"
            assert outcome(shape, *more) == "compiled"
            assert outcome(shape, *more) == "disk hit"
        # The key contains the text of the schedule, but not the path of the files.
        moved = folder / "moved"
        moved.mkdir()
        (moved / "q.yaml").write_text(original)
        (moved / "tile.mlir").write_text(tile.read_text())
        assert outcome("64x48x96", "--pipeline", moved / "q.yaml") == "disk hit"
        (moved / "tile.mlir").write_text(tile.read_text() + "// a word\n")
        assert outcome("64x48x96", "--pipeline", moved / "q.yaml") == "compiled"
        stage = lathe("dump", "matmul", "64x48x96", "--pipeline", yaml, "--stage", "01-tile.mlir")
        assert "scf.forall" in stage and "lathe.step" in stage, stage

        text = compile_payload(PAYLOADS / "mlp.mlir", "--m-max", 2, "--pipeline", yaml, cache=cache)
        assert last_line(text).startswith("4 classes: 4 compiled"), text

        # Parameters from a file.
        yaml.write_text(original.replace("tile_m: plan.tile_m", "tile_m: params.rows"))
        plan = json.loads(lathe("explain", "matmul", "64x48x96", "--json"))["config"]
        params.write_text(json.dumps({"lathe_params": 1, "parameters": {"rows": plan["tile_m"]}}))
        assert outcome("64x48x96", "--pipeline", yaml, "--params", params) == "compiled"

        def refused(text, *words, schedule=None, rows=None):
            yaml.write_text(text)
            tile.write_text(schedule or (source / "tile.mlir").read_text())
            flags = ["--params", params] if rows is not None else []
            params.write_text(json.dumps({"lathe_params": 1, "parameters": rows}, indent=1))
            error = lathe("run", "matmul", "64x48x96", "--pipeline", yaml, *flags, code=1)
            assert all(word in error for word in words), error

        refused(original.replace("emitter:", "emiter:"), "p.yaml:15: unknown key 'emiter'")
        refused(original.replace("matmul.cpu\n  - name: llvm", "nobody\n  - name: llvm"), "p.yaml:15: stage 'kernel': unknown emitter 'nobody'")
        refused(original.replace("tile.mlir", "none.mlir"), "p.yaml:7: cannot read", "none.mlir")
        refused(original.replace("plan.tile_m", "params.rows"), "p.yaml:9: 'params.rows' is unbound")
        refused(original, "p.json:4: parameter 'rows' is used by no stage", rows={"rows": 4})
        refused(original, "tile.mlir:5:", schedule=tile.read_text().replace("!transform.any_op", "!transform.an_op"))
        refused(original.replace("plan.tile_n", "17"), "use the plan's tile sizes")
        refused(original.replace("for: matmul.cpu", "for: matmul.tpu"), "p.yaml:1:", "matmul.tpu")

        # Several pipelines share a parameter file. Each uses its own parameters.
        yaml.write_text(original.replace("tile_m: plan.tile_m", "tile_m: params.rows"))
        tile.write_text((source / "tile.mlir").read_text())
        other = folder / "argmax.yaml"
        kernels = PAYLOADS.parent.parent / "kernels"
        other.write_text((kernels / "argmax" / "cpu.yaml").read_text().replace("include-bf16=true", "include-bf16=${params.wide}"))
        both = f"{yaml}:{other}"

        def of_both(parameters, code):
            params.write_text(json.dumps({"lathe_params": 1, "parameters": parameters}, indent=1))
            return lathe("run", "matmul", "64x48x96", "--json", "--repeat", 1, "--pipeline", both, "--params", params, code=code)

        rows = {"rows": plan["tile_m"]}
        assert json.loads(of_both({**rows, "wide": "true"}, 0))["cache_outcome"] == "compiled"
        # A parameter of the other pipeline is not part of this key.
        assert json.loads(of_both({**rows, "wide": "false"}, 0))["cache_outcome"] == "disk hit"
        assert "p.json:6: parameter 'x' is used by no stage of " in of_both({**rows, "wide": "true", "x": 1}, 1)
        assert "argmax.yaml:7: stage 'llvm': 'params.wide' is unbound" in of_both(rows, 1)
        params.write_text('{"lathe_params": 1,\n "parameters": {\n  "rows": 1,\n  "rows": 2}}\n')
        error = lathe("run", "matmul", "64x48x96", "--pipeline", yaml, "--params", params, code=1)
        assert "p.json:4: duplicate key 'rows'" in error, error
        assert "cannot read" in lathe("run", "matmul", "8x8x8", "--pipeline", folder / "nowhere.yaml", code=1)


PRODUCT = """  %{d} = linalg.matmul ins(%x, %{w} : tensor<?x8xf32>, tensor<8x4xf32>) outs(%{o} : tensor<{m}x4xf32>) -> tensor<{m}x4xf32>
"""
TWO_PRODUCTS = """// Both read %x, whose number of rows each result gives differently.
func.func @f(%x: tensor<?x8xf32>, %v: tensor<8x4xf32>, %w: tensor<8x4xf32>,
             %o: tensor<20000x4xf32>, %p: tensor<5x4xf32>)
    -> (tensor<20000x4xf32>, tensor<5x4xf32>) {
""" + PRODUCT.format(d="d", w="v", o="o", m=20000) + PRODUCT.format(d="e", w="w", o="p", m=5) + """
  return %d, %e : tensor<20000x4xf32>, tensor<5x4xf32>
}
"""


def elementwise(x, map_of_x, result):
    """A linalg.generic that squares %x, read through `map_of_x`. It has no kernel."""
    return f"""#y = affine_map<{"(i, j) -> (i, j)" if "x" in result else "(i) -> (i)"}>
func.func @f(%x: tensor<{x}xf32>, %o: tensor<{result}xf32>) -> tensor<{result}xf32> {{
  %y = linalg.generic {{indexing_maps = [affine_map<{map_of_x}>, #y], iterator_types = [{'"parallel", "parallel"' if "x" in result else '"parallel"'}]}}
       ins(%x : tensor<{x}xf32>) outs(%o : tensor<{result}xf32>) {{
  ^bb0(%e: f32, %z: f32):
    %s = arith.mulf %e, %e : f32
    linalg.yield %s : f32
  }} -> tensor<{result}xf32>
  return %y : tensor<{result}xf32>
}}
"""


TALL = elementwise("?x400", "(i, j) -> (i, j)", "20000x400")
NOTHING_REDUCED = """func.func @f(%x: tensor<3x0xf32>, %w: tensor<0x4xf32>, %c: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %d = linalg.matmul ins(%x, %w : tensor<3x0xf32>, tensor<0x4xf32>) outs(%c : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %d : tensor<3x4xf32>
}
"""
TWO_COPIES = """func.func @f(%x: tensor<?x4xf32>, %o: tensor<20000x4xf32>, %p: tensor<5x4xf32>) -> (tensor<20000x4xf32>, tensor<5x4xf32>) {
  %a = linalg.exp ins(%x : tensor<?x4xf32>) outs(%o : tensor<20000x4xf32>) -> tensor<20000x4xf32>
  %b = linalg.exp ins(%x : tensor<?x4xf32>) outs(%p : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %a, %b : tensor<20000x4xf32>, tensor<5x4xf32>
}
"""
APART = elementwise("?", "(i) -> (i * 2)", "20000")
ARGMAX_ROWS = (PAYLOADS / "argmax.mlir").read_text().replace("64x32000", "?x32000").replace("64xf32", "6xf32").replace("64xi64", "5xi64")


def test_refusals(cache):
    mlp = (PAYLOADS / "mlp.mlir").read_text()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "p.mlir"

        def refused(text, code, *words):
            path.write_text(text)
            error = compile_payload(path, cache=cache, code=code)
            assert all(word in error for word in words), error

        refused(mlp.replace("math.erf", "math.sin"), 1, "UNSUPPORTED", "p.mlir:11:8: linalg.generic:")
        refused(mlp.replace("tensor<64x256xf32>", "tensor<?x256xf32>").replace("tensor<?x64xf32>", "tensor<?x?xf32>"), 1,
                "p.mlir:23:8: dimension 0 of 'b' is open, but only rows may be open")
        refused(mlp.replace("tensor<256xf32>", "tensor<255xf32>"), 2,
                "p.mlir:9:8: dimension 0 of 'bias' is 255, but another operand has 256")
        refused(mlp[:200], 2, "p.mlir:")
        # Extents whose product, or whose strides, exceed 2^63 - 1.
        batched = (PAYLOADS / "batched.mlir").read_text()
        for b, m, k in ((1 << 62, 4, 9), (0, 1 << 62, 9)):
            huge = batched.replace("32x128x256", f"{b}x{m}x{k}").replace("32x256x192", f"{b}x{k}x192")
            refused(huge.replace("32x128x192", f"{b}x{m}x192"), 2, "p.mlir:6:8: 'a' is too large: the product of its extents exceeds 2^63 - 1")
        # Two steps give the same open extent different values; also two elementwise steps.
        refused(TWO_PRODUCTS, 2, "p.mlir:6:8: dimension 0 of an operand of 5x4 is 5, but another operand has 20000")
        # If the text cannot be evaluated, the steps are compared with each other.
        constant = "  %numbers = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>\n  %d ="
        refused(TWO_PRODUCTS.replace("  %d =", constant), 2, "p.mlir:7:8: dimension 0 of 'a' is 5, but another step has 20000")
        refused(TWO_COPIES, 2, "p.mlir:3:8: dimension 0 of an operand of 5x4 is 5, but another operand has 20000")
        refused(APART, 2, "p.mlir:3:8: it reads dimension 0 of an operand of 8192 from 0 to 39998")
        refused(ARGMAX_ROWS, 2, "p.mlir:9:10: dimension 0 of 'values' is 6, but another operand has 5")
        refused("", 1, "p.mlir: the module has no function")
        refused("module {\n" + mlp + "}\n" + mlp, 1, "p.mlir:", "not a function")
    for path in (PAYLOADS / "none.mlir", PAYLOADS):
        assert f"cannot read '{path}'" in compile_payload(path, cache=cache, code=2)
    assert "--m-max has no effect: no step of" in compile_payload(PAYLOADS / "square.mlir", "--m-max", 3, cache=cache, code=2)


for name, test in list(globals().items()):
    if name.startswith("test_"):
        with tempfile.TemporaryDirectory() as folder:
            test(folder)
            print("ok", name)
