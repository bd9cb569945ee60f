#!/usr/bin/env python3
"""Draws docs/speed.svg, the chart of README.md, from benchmarks/matmul-*.csv, gguf-*.csv and cuda-h200.csv.

    first_page_chart.py [--check]

Drawing needs matplotlib (python3 -m pip install matplotlib). --check needs nothing and writes nothing: exit status 1 if
the figures in docs/speed.svg differ from what the CSV files say.
"""
import html
import pathlib
import re
import sys

import speed_charts as charts

PATH = pathlib.Path(__file__).resolve().parents[1] / "docs/speed.svg"
DECODE, PREFILL = 1, 512
DTYPES = [("f32", "f32"), ("bf16", "bf16"), ("i8", "int8")]
OPEN_LIBRARIES = "OpenBLAS, oneDNN, MKL"
# Machine, its peers, the CSV file, the column with the ratio, and the dtypes with their labels.
GROUPS = [
    ("Zen 4", OPEN_LIBRARIES, "matmul-zen4", charts.PEER, DTYPES),
    ("Zen 5", OPEN_LIBRARIES, "matmul-zen5", charts.PEER, DTYPES),
    ("Emerald Rapids", OPEN_LIBRARIES, "matmul-emerald-rapids", charts.PEER, DTYPES),
    ("Emerald Rapids, GGUF, one layer", "llama.cpp, ik_llama.cpp", "gguf-emerald-rapids", charts.PEER,
     [(dtype, dtype) for dtype in (charts.GGUF_32 + " " + charts.GGUF_256).split()]),
    ("NVIDIA H200", "cuBLASLt", charts.GPU_FILE, charts.FIRST, [("bf16", "bf16"), ("f8_e4m3", "fp8"), ("i8", "int8")]),
]
DECODE_COLOUR, PREFILL_COLOUR = "#0072b2", "#d55e00"


def bars():
    """[(machine, peers, [(label, {M: (mean, worst)})])]; a dtype that was not measured at both M is left out."""
    groups = []
    for machine, peers, file, column, dtypes in GROUPS:
        table, rows = charts.read(file), []
        for dtype, label in dtypes:
            points = charts.points_of(table, column, 1, "nt", dtype, charts.LAYER)
            of = {m: [value for at, value, _ in points if at == m] for m in (DECODE, PREFILL)}
            if all(of.values()):
                rows.append((label, {m: (charts.geometric_mean(values), min(values)) for m, values in of.items()}))
        groups.append((machine, peers, rows))
    return groups


def text_of(groups):
    """The figures as text, which the chart contains and --check compares."""
    return "; ".join(f"{machine} {label} M={m}: {mean:.2f}, worst {worst:.2f}"
                     for machine, _, rows in groups for label, values in rows for m, (mean, worst) in values.items())


def draw(groups):
    try:
        import matplotlib
    except ImportError:
        sys.exit("first_page_chart.py: drawing needs matplotlib: python3 -m pip install matplotlib")
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lathe", "font.size": 7,
                                "font.family": ["DejaVu Sans", "sans-serif"]})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(600 / 72, 240 / 72))  # 800 pixels wide
    axes.set_position([0.052, 0.14, 0.942, 0.625])
    top, x, ticks, labels = 2.6, 0.0, [], []
    for machine, peers, rows in groups:
        start = x
        for label, values in rows:
            for m, offset, colour in ((DECODE, -0.21, DECODE_COLOUR), (PREFILL, 0.21, PREFILL_COLOUR)):
                mean, worst = values[m]
                axes.bar(x + offset, mean, 0.4, color=colour)
                axes.text(x + offset + 0.02, 0.06, f"{mean:.2f}", rotation=90, ha="center", va="bottom", color="white")
                if worst < mean:  # more than one weight
                    axes.plot([x + offset - 0.2, x + offset + 0.2], [worst, worst], color="black",
                              linewidth=1.2)
            ticks.append(x)
            labels.append(label)
            x += 1
        middle = (start + x - 1) / 2
        axes.text(middle, top + 0.2, machine, ha="center", va="bottom", fontsize=8, fontweight="bold")
        axes.text(middle, top + 0.03, f"vs {peers}", ha="center", va="bottom", fontsize=6.5)
        x += 0.55
    axes.axhline(1, color="black", linewidth=1.2, linestyle=(0, (4, 2)))
    axes.set_xlim(-0.6, x - 0.95)
    axes.set_ylim(0, top)
    axes.set_xticks(ticks, labels)
    axes.set_yticks([0, 0.5, 1, 1.5, 2, 2.5], ["0", "0.5x", "1x", "1.5x", "2x", "2.5x"])
    axes.tick_params(length=0)
    axes.grid(axis="y", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.text(0.008, 0.935, "Time of the fastest peer divided by Lathe's time: above 1x, Lathe is faster", fontsize=10)
    handles = [plt.Rectangle((0, 0), 1, 1, color=DECODE_COLOUR), plt.Rectangle((0, 0), 1, 1, color=PREFILL_COLOUR),
               plt.Line2D([0], [0], color="black", linewidth=1.4)]
    figure.legend(handles, [f"decode, M = {DECODE}", f"prefill, M = {PREFILL}", "worst weight of the group"], ncols=3,
                  loc="lower left", bbox_to_anchor=(0.006, -0.005), frameon=False)
    figure.text(0.992, 0.028, "geometric mean over the layers of LLMs; one thread on CPUs", ha="right")
    figure.savefig(PATH, facecolor="white",
                   metadata={"Date": None, "Title": "Speed of Lathe beside peers", "Description": text_of(groups)})


def check(groups):
    found = re.search(r"<dc:description>(.*?)</dc:description>", PATH.read_text(encoding="utf-8"), re.DOTALL)
    if not found or html.unescape(found[1]).split("; ") != text_of(groups).split("; "):
        sys.exit(f"{PATH} differs from the CSV files: run benchmarks/first_page_chart.py")


if __name__ == "__main__":
    (check if "--check" in sys.argv[1:] else draw)(bars())
