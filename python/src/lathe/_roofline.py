"""The roofline chart that a notebook shows with an explanation."""

import io

_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "i32": 4, "q4_0": 18 / 32, "q4_1": 20 / 32, "q5_0": 22 / 32,
          "q5_1": 24 / 32, "q8_0": 34 / 32, "q4_k": 144 / 256, "q5_k": 176 / 256, "q6_k": 210 / 256,
          "iq4_nl": 18 / 32, "iq4_xs": 136 / 256, "mxfp4": 17 / 32}


def roofs(plan):
    """Numbers of the chart: (flop per byte, predicted flop/s, memory's bytes/s, float32's flop/s); None without them.

    The compute roof is that of float32 multiply-adds. Products of narrower dtypes may be above it.
    """
    problem, dims = plan.get("class", {}), plan.get("dims", {})
    facts = {name: fact["value"] for name, fact in plan.get("facts", {}).get("facts", {}).items()}
    needed = ("clock_hz", "core_bytes_per_second", "fma_units", "memory_bytes_per_second")
    if problem.get("op") not in ("matmul", "matmul_argmax") or not plan.get("predicted_seconds"):
        return None
    if any(name not in facts for name in needed) or any(problem[name] not in _BYTES for name in "ab"):
        return None
    m, n, k, batch, workers = dims["m"], dims["n"], dims["k"], dims["batch"], plan["workers"]
    moved = m * k * _BYTES[problem["a"]] + n * k * _BYTES[problem["b"]] + m * n * _BYTES.get(problem["d"], 0)
    features = plan["target"]["features"]
    lanes = 16 if "+avx512f" in features else 8 if "+avx2" in features else 4
    return (2 * m * n * k / moved, 2 * m * n * k * batch / plan["predicted_seconds"],
            min(facts["memory_bytes_per_second"], workers * facts["core_bytes_per_second"]),
            2 * lanes * facts["fma_units"] * facts["clock_hz"] * workers)


def svg(plan):
    """The chart as SVG text; empty without matplotlib, or if the plan lacks a number."""
    numbers = roofs(plan)
    if numbers is None:
        return ""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    intensity, rate, memory, compute = numbers
    ridge = compute / memory
    left, right = min(intensity, ridge) / 8, max(intensity, ridge) * 8
    figure = Figure(figsize=(5, 3), layout="constrained")
    axes = figure.add_subplot()
    axes.loglog([left, ridge, right], [left * memory / 1e9, compute / 1e9, compute / 1e9], color="tab:blue",
                label=f"{memory / 1e9:.3g} GB/s; float32 {compute / 1e9:.3g} Gflop/s")
    axes.loglog([intensity], [rate / 1e9], "o", color="tab:red", label=f"predicted: {rate / 1e9:.3g} Gflop/s")
    axes.set(xlabel="flop per byte", ylabel="Gflop/s", title=plan["request"])
    axes.title.set_fontsize("small")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    text = io.StringIO()
    figure.savefig(text, format="svg")
    return text.getvalue()[text.getvalue().index("<svg"):]
