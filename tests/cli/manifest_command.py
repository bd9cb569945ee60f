"""Runs `lathe manifest` for its tests, on the configs of published models and on changed ones."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LATHE = sys.argv[1]
CONFIGS = pathlib.Path(__file__).parent / "configs"


def lathe(*words):
    return subprocess.run([LATHE, "manifest", *map(str, words)], capture_output=True, text=True, timeout=60)


def manifest(model, *flags):
    result = lathe(CONFIGS / f"{model}.json", *flags)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def manifest_of(config, *flags):
    """The result of the command for a config, which is text or an object."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "config.json"
        path.write_text(config if isinstance(config, str) else json.dumps(config))
        return lathe(path, *flags)


def made_of(config, *flags):
    result = manifest_of(config, *flags)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


def config_of(model, **changes):
    return dict(json.loads((CONFIGS / f"{model}.json").read_text()), **changes)


def weights_of(made):
    """The matmuls, one for each weight: without the forms of experts that have a gate or are summed."""
    return [e for e in made["classes"] if e["op"] == "matmul" and not re.search(r" (gated|summed)$", e["name"])]


def shapes(made):
    """{name: (n, k, has a bias)} of the weights."""
    return {e["name"]: (e["n"], e["k"], "bias" in e) for e in weights_of(made)}


def listed(made, name, shape):
    """Whether a layer is listed. A layer with the sizes of an earlier one has that one's class and name."""
    return made[name][:2] == shape if name in made else shape in [(n, k) for n, k, _ in made.values()]


def names(config, *flags):
    return set(shapes(made_of(config, *flags)))


def run_tests(tests):
    for name, test in list(tests.items()):
        if name.startswith("test_"):
            test()
