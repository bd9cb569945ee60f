"""The device of a process: threads, forks, warm-up, explanations, statistics, and the command."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import lathe
import numpy
import pytest

RNG = numpy.random.default_rng(7)


def random(shape):
    return RNG.standard_normal(shape).astype(numpy.float32)


def run(program, **environment):
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment}, text=True,
                          capture_output=True, timeout=60)


def test_threads_call_at_once():
    inputs = [(random((m, 32)), random((48, 32))) for m in range(1, 9)]
    wrong = []

    def work(a, weight):
        for _ in range(50):
            if not numpy.allclose(lathe.matmul(a, weight.T), a @ weight.T, atol=1e-4):
                wrong.append(a.shape)

    threads = [threading.Thread(target=work, args=pair) for pair in inputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_gil_is_released():
    seen, a = [], random((900, 900))
    lathe.matmul(a, a)
    thread = threading.Thread(target=lambda: [seen.append(0) for _ in range(10**6)])
    thread.start()
    counts = []
    while thread.is_alive():
        before = len(seen)
        lathe.matmul(a, a)
        counts.append(len(seen) - before)
    # Each call takes milliseconds. If it held the GIL, the other thread would never advance meanwhile.
    assert sum(counts) > len(seen) / 10


def test_the_child_of_a_fork_opens_its_own_device():
    a, weight = random((64, 200)), random((300, 200))
    expected = lathe.matmul(a, weight.T)  # the parent has a device, and threads if there is more than one core
    new = random((200, 17))  # a class that only the child asks for, so it compiles
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            same = (lathe.matmul(a, weight.T) == expected).all()
            close = numpy.allclose(lathe.matmul(a, new), a @ new, atol=1e-3)
            own = lathe.statistics()["dispatch_misses"] == 2
            os.write(write, b"ok" if same and close and own else b"wrong")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"ok"
    assert os.waitpid(child, 0)[1] == 0
    assert (lathe.matmul(a, weight.T) == expected).all()


def test_multiprocessing_works():
    program = """
import multiprocessing, numpy, lathe
def work(m):
    return float(lathe.matmul(numpy.ones((m, 3), 'f'), numpy.ones((3, 2), 'f')).sum())
if __name__ == '__main__':
    work(1)
    with multiprocessing.get_context('fork').Pool(2) as pool:
        print(pool.map(work, [1, 2, 3]))
"""
    done = run(program)
    assert done.stdout == "[6.0, 12.0, 18.0]\n", done.stderr


def test_warm_up_leaves_no_miss():
    weights = {"up": random((40, 30)).T, "packed": lathe.pack(random((40, 30)).T)}
    steps = []
    report = lathe.warmup(weights, m=3, bias_dtype="float32", activation="relu",
                          progress=lambda *step: steps.append(step))
    assert report["classes"] == len(steps) >= 6
    assert report["compiled"] + report["loaded"] + report["present"] == report["classes"]
    assert {step[2] for step in steps} == {"up", "packed"} and steps[-1][0] == steps[-1][1]
    misses = lathe.statistics()["dispatch_misses"]
    for weight in weights.values():
        for m in (1, 2, 3):
            lathe.matmul(random((m, 30)), weight, bias=random(40), activation="relu")
    assert lathe.statistics()["dispatch_misses"] == misses
    report = lathe.warmup(random((40, 30)).T, m=1, op="matmul_argmax")
    lathe.matmul_argmax(random((1, 30)), random((40, 30)).T)
    assert report["classes"] == 1
    batch = random((2, 8, 4))
    assert lathe.warmup([batch], m=2)["classes"] == 2
    assert "batch=2" in str(lathe.explain(random((2, 3, 8)), batch))
    misses = lathe.statistics()["dispatch_misses"]
    lathe.matmul(random((2, 2, 8)), batch)
    assert lathe.statistics()["dispatch_misses"] == misses


def test_a_miss_is_an_error_if_the_policy_says_so():
    lathe.set_miss_policy("error")
    try:
        with pytest.raises(lathe.Error) as raised:
            lathe.matmul(random((5, 77)), random((77, 3)))
        assert raised.value.status is lathe.Status.MISS
    finally:
        lathe.set_miss_policy("block")
    assert lathe.matmul(random((5, 77)), random((77, 3))).shape == (5, 3)
    with pytest.raises(ValueError, match="'fallback'"):
        lathe.set_miss_policy("never")


def test_warm_up_ends_when_progress_raises():
    def stop(*step):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        lathe.warmup(random((41, 31)).T, m=16, progress=stop)


def test_warm_up_refuses_a_damaged_manifest():
    with pytest.raises(lathe.Error, match="parse error at line 1, column 2"):
        lathe.warmup("{")


def test_explains_a_request():
    plan = lathe.explain(numpy.empty((4, 64), numpy.float32), numpy.empty((96, 64), numpy.float32).T)
    text = str(plan)
    assert "matmul f32 a=n b=t m=4 n=96 k=64" in text and "predicted" in text
    assert len(text.splitlines()) > 10
    table = plan._repr_html_()
    assert table.startswith("<table>") and table.count("<tr>") == table.count("</tr>") > 10
    assert plan.plan["candidates"][0]["rank"] == 1
    assert "argmax" in str(lathe.explain(random((2, 50))))
    assert "matmul_argmax" in str(lathe.explain(random((2, 5)), random((5, 7)), op="matmul_argmax"))
    assert "no kernel" in str(lathe.explain(random((2, 5)), random((5, 0))))
    with pytest.raises(ValueError):
        lathe.explain(random((2, 5)), random((5, 7)), op="sum")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_roofline_has_the_requests_numbers(dtype):
    from lathe import _roofline
    plan = lathe.explain(numpy.empty((4, 64), dtype), numpy.empty((96, 64), dtype).T).plan
    intensity, rate, memory, compute = _roofline.roofs(plan)
    size = numpy.dtype(dtype).itemsize
    assert intensity == pytest.approx(2 * 4 * 96 * 64 / (size * (4 * 64 + 96 * 64 + 4 * 96)))
    assert rate == pytest.approx(2 * 4 * 96 * 64 / plan["predicted_seconds"])
    facts = {name: fact["value"] for name, fact in plan["facts"]["facts"].items()}
    assert memory <= facts["memory_bytes_per_second"]
    assert compute / plan["workers"] / facts["clock_hz"] / facts["fma_units"] in (8, 16, 32)
    assert _roofline.roofs(lathe.explain(random((2, 50))).plan) is None


def test_a_notebook_gets_a_roofline_if_matplotlib_is_installed(monkeypatch):
    plan = lathe.explain(numpy.empty((4, 64), numpy.float32), numpy.empty((64, 96), numpy.float32))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # import fails
    assert "<svg" not in plan._repr_html_()
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    chart = plan._repr_html_()
    assert chart.count("<table>") == 2 and chart.rstrip().endswith("</svg>")


def test_statistics_count_calls():
    a = random((3, 11))
    lathe.matmul(a, a.T)
    before = lathe.statistics()
    lathe.matmul(a, a.T)
    after = lathe.statistics()
    assert after["dispatch_hits"] == before["dispatch_hits"] + 1
    assert after["compiles"] == before["compiles"]


def test_calibrates(tmp_path):
    file = tmp_path / "machine.json"
    facts = lathe.calibrate(seconds=0.3, output=file)
    assert facts["facts"] and file.exists()
    assert lathe.matmul(random((2, 3)), random((3, 2))).shape == (2, 2)


def test_metrics_are_written_at_exit(tmp_path):
    done = run("import numpy, lathe; lathe.argmax(numpy.ones((1, 4), 'f'))", LATHE_METRICS=str(tmp_path / "metrics"))
    assert done.returncode == 0 and done.stderr == ""
    assert "dispatch_misses" in (tmp_path / "metrics").read_text()


def test_the_process_may_end_while_daemon_threads_call():
    program = """
import threading, numpy, lathe
a = numpy.ones((200, 200), 'f')
def work():
    while True:
        lathe.matmul(a, a)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
lathe.matmul(a, a)
"""
    done = run(program)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_wrong_environment_is_an_error():
    program = "import numpy, lathe\ntry: lathe.argmax(numpy.ones((1, 4), 'f'))\nexcept lathe.Error as e: print(e)"
    assert "LATHE_WORKERS" in run(program, LATHE_WORKERS="many").stdout


def test_the_command_runs():
    done = subprocess.run([sys.executable, "-m", "lathe", "explain", "matmul", "4x64x64"], text=True,
                          capture_output=True, timeout=60)
    assert done.returncode == 0 and "m=4 n=64 k=64" in done.stdout, done.stderr


def test_a_compiler_process_works(tmp_path):
    program = "import numpy, lathe; print(lathe.matmul(numpy.ones((2, 2), 'f'), numpy.ones((2, 3), 'f')).sum())"
    done = run(program, LATHE_COMPILER="process", LATHE_CACHE_DIR=str(tmp_path))
    assert done.stdout == "12.0\n", done.stderr


def test_the_fallback_bundle_is_found(tmp_path):
    program = ("import numpy, lathe; lathe.set_miss_policy('fallback'); "
               "print(lathe.matmul(numpy.ones((2, 2), 'f'), numpy.ones((2, 3), 'f')).sum(), "
               "lathe.statistics()['fallback_runs'])")
    done = run(program, LATHE_CACHE_DIR=str(tmp_path))
    assert done.stdout == "12.0 1\n", done.stderr


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_a_processor_without_avx2(tmp_path):
    program = """
import numpy, lathe
assert not lathe._core.has_avx2()
a = numpy.ones((3, 5), numpy.float32)
assert (lathe.matmul(a, a.T) == 5).all()
try:
    lathe.pack(lathe.QuantisedWeight(bytes(34 * 4), "q8_0", (2, 64)))
except lathe.Error as error:
    print(error.status.name, error)
"""
    done = subprocess.run(["qemu-x86_64", "-cpu", "SandyBridge", sys.executable, "-c", program], text=True,
                          capture_output=True, timeout=120, env={**os.environ, "LATHE_CACHE_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("UNSUPPORTED") and "AVX2" in done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/python.md"])
def test_the_document_runs(document):
    text = (pathlib.Path(__file__).parents[2] / document).read_text()
    programs = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert programs
    for program in programs:
        exec(compile(program, document, "exec"), {})


def test_stubs_match_the_functions():
    import ast
    stub = ast.parse((pathlib.Path(lathe.__file__).parent / "_core.pyi").read_text())
    for function in (node for node in stub.body if isinstance(node, ast.FunctionDef)):
        signature = getattr(lathe._core, function.name).__nb_signature__[0][0]
        names = [argument.arg for argument in function.args.args + function.args.kwonlyargs]
        signature = re.sub(r" = \\\d+", " = None", signature)  # nanobind numbers the default values
        real = ast.parse(signature + ": ...").body[0].args
        assert names == [argument.arg for argument in real.args + real.kwonlyargs], function.name
