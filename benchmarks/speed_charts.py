#!/usr/bin/env python3
"""Charts and tables of docs/cpu-speed.md, docs/gpu-speed.md, docs/gguf-speed.md, docs/ggml.md and
docs/ggml-results.md, made from benchmarks/matmul-*.csv, cuda-h200.csv, gguf-*.csv and ggml-*.csv.

    speed_charts.py [--check]

Writes docs/cpu-<machine>.svg, docs/gpu-h200.svg, docs/gguf-<machine>.svg and docs/ggml-<machine>.svg, and prints the
tables of the documents as Markdown. --check writes nothing: exit status 1 if a chart or a row of a table in docs/
differs from what the CSV files say.
"""
import csv
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A chart of the CPU, its title, and the CSV files in it with what their rows and panels are called.
CHARTS = [
    ("zen4", "Zen 4", [("zen4", "")]),
    ("zen5", "Zen 5", [("zen5", "")]),
    ("emerald-rapids", "Emerald Rapids", [("emerald-rapids", "")]),
    ("zen3", "Zen 3", [("zen3", "")]),
    ("avx2", "AVX2 instructions only", [("avx2", "Zen 4: "), ("avx2-zen5", "Zen 5: ")]),
]

GPU_FILE, GPU_TITLE = "cuda-h200", "NVIDIA H200"
GPU_DTYPES = [("bf16", "bf16"), ("fp8", "f8_e4m3"), ("int8", "i8")]
GPU_M = (1, 8, 16, 512, 2048, 8192)
FIRST, BEST = "vs first", "vs best"

GGUF_MACHINES = [("gguf-emerald-rapids", "GGUF weights, Emerald Rapids"), ("gguf-zen4", "GGUF weights, Zen 4")]
GGUF_32, GGUF_256 = "q4_0 q8_0 q4_1 q5_0 q5_1 iq4_nl mxfp4", "q4_k q5_k q6_k iq4_xs"
# Panels of the chart: title, dtypes, threads.
GGUF_PANELS = [("blocks of 32", GGUF_32, 1), ("blocks of 256", GGUF_256, 1),
               ("blocks of 32, two threads", GGUF_32, 2), ("blocks of 256, two threads", GGUF_256, 2)]

# Of each comparison with ggml's CPU backend: document, CSV file, title, unit, and columns with the tests in the file.
GGML = [("ggml.md", "ggml-zen4", "llama.cpp, Zen 4", "tokens per second",
         [("prompt 512", ("pp512",)), ("prompt 2048", ("pp2048",)), ("generation", ("tg128", "tg64", "tg32")),
          ("4 sequences", ("tg64 x4", "tg32 x4")), ("16 sequences", ("tg64 x16", "tg32 x16"))]),
        ("ggml-results.md", "ggml-operations-zen4", "MUL_MAT of ggml, Zen 4", "GFLOP/s",
         [(f"{rows} row{'s'[:rows > 1]}", (f"{rows} x 4096 x 14336",)) for rows in (1, 8, 512)])]

# Columns of the CSV files.
PEER, PACKED_PEER, OWN = "vs best peer", "packed vs best peer", "vs own f32"
ROOFLINE, READING = "of f32 roofline", "of reading"
LAYER, ODD = "layer", "odd"
# Rows of a table: name, column of the CSV file, threads, layout, dtypes, kind of sizes.
ROWS = [
    ("f32", PEER, 1, "nt", "f32", LAYER),
    ("f32, packed", PACKED_PEER, 1, "nt", "f32", LAYER),
    ("f32, two threads", PEER, 2, "nt", "f32", LAYER),
    ("f32, K by N", PEER, 1, "nn", "f32", LAYER),
    ("f32, odd sizes", PEER, 1, "nt", "f32", ODD),
    ("bf16", PEER, 1, "nt", "bf16", LAYER),
    ("int8", PEER, 1, "nt", "i8", LAYER),
    ("bf16 / f32", OWN, 1, "nt", "bf16", LAYER),
    ("16-bit weights / f32", OWN, 1, "nt", "f16_weights bf16_weights", LAYER),
    ("bf16 weights, `MATH_BF16` / f32", OWN, 1, "nt", "bf16_weights_bf16", LAYER),
    ("int8 / f32", OWN, 1, "nt", "i8", LAYER),
    ("q4_0 / f32", OWN, 1, "nt", "q4_0", LAYER),
    ("q4_0, `MATH_INT8` / f32", OWN, 1, "nt", "q4_0_int8", LAYER),
]
GROUPS = [("M = 1", 1, 1), ("2-5", 2, 5), ("6-16", 6, 16), ("17-64", 17, 64), ("65-256", 65, 256), ("512", 512, 512)]
# Panels of a chart: title, then a row of ROWS by name.
PANELS = [("f32, one thread", "f32"), ("f32, two threads", "f32, two threads"),
          ("f32, K by N", "f32, K by N"), ("bf16", "bf16"), ("int8", "int8")]
# Lines of a chart: the row and its colour.
LINES = [("bf16 / f32", "#0072b2"), ("16-bit weights / f32", "#56b4e9"),
         ("bf16 weights, `MATH_BF16` / f32", "#000000"), ("int8 / f32", "#009e73"),
         ("q4_0 / f32", "#d55e00"), ("q4_0, `MATH_INT8` / f32", "#cc79a7")]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def ratio(text):
    """A number of "1.35x" or "88%"; None where nothing was measured."""
    if text.endswith("x"):
        return float(text[:-1])
    return float(text[:-1]) / 100 if text.endswith("%") else None


def read(name):
    """The rows of a CSV file as dicts. The second column of a name is for packed weights."""
    with open(ROOT / f"benchmarks/{name}.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    names = ["packed " + name if name in header[:i] else name for i, name in enumerate(header)]
    table = [dict(zip(names, row)) for row in rows]
    for row in table:
        row["M"] = int(row["M"])
        row["threads"] = int(row.get("threads", 1))
        row.setdefault("layout", "nt")
        row["sizes"] = ODD if row["weight"] in ("odd", "ragged") else LAYER
    return table


def points_of(table, column, threads, layout, dtypes, sizes):
    """(M, ratio, weight) of the rows that match, by M."""
    found = []
    for row in table:
        if (row["threads"], row["layout"], row["sizes"]) != (threads, layout, sizes):
            continue
        if row["dtype"] not in dtypes.split():
            continue
        value = ratio(row.get(column, "-"))
        if value is not None:
            found.append((row["M"], value, row["weight"]))
    return sorted(found)


def means_of(points):
    by_m = {}
    for m, value, _ in points:
        by_m.setdefault(m, []).append(value)
    return [(m, geometric_mean(values)) for m, values in sorted(by_m.items())]


# Tables.


def cell(values):
    """The mean, and the worst in parentheses; a mean below 1 is bold."""
    if not values:
        return ""
    mean, worst = f"{geometric_mean(values):.2f}", f"{min(values):.2f}"
    return (f"**{mean}**" if float(mean) < 1 else mean) + (f" ({worst})" if len(values) > 1 else "")


def percent(values):
    return f"{100 * geometric_mean(values):.0f} %" if values else ""


def in_group(points, group):
    return [value for m, value, _ in points if group[1] <= m <= group[2]]


def markdown(cells):
    return "|" + "".join(f" {text} |" if text else " |" for text in cells)


def rows_of(machine, prefix):
    """The lines of a Markdown table that a CSV file gives."""
    table = read(f"matmul-{machine}")
    plain = (1, "nt", "f32", LAYER)
    lines = []
    for name, *filters in ROWS:
        points = points_of(table, *filters)
        if points:
            lines.append((name, [cell(in_group(points, group)) for group in GROUPS]))
    roofline, reading = points_of(table, ROOFLINE, *plain), points_of(table, READING, *plain)
    lines.append(("f32, of roofline",
                  [percent(in_group(reading if reading and group[1] == 1 else roofline, group)) for group in GROUPS]))
    return [markdown([prefix + name, *cells]) for name, cells in lines]


def table_of(parts):
    head = [markdown(["", *(group[0] for group in GROUPS)]), "|" + "-|" * (len(GROUPS) + 1)]
    return head + [line for machine, prefix in parts for line in rows_of(machine, prefix)]


def gpu_table():
    table = read(GPU_FILE)
    lines = [markdown(["", "M = 1", *(str(m) for m in GPU_M[1:])]), "|" + "-|" * (len(GPU_M) + 1)]
    for name, dtype in GPU_DTYPES:
        for title, column in ((", over the first answer", FIRST), (", over the best of eight", BEST)):
            points = points_of(table, column, 1, "nt", dtype, LAYER)
            lines.append(markdown([name + title, *(cell(in_group(points, ("", m, m))) for m in GPU_M)]))
    return lines


def gpu_weights_table():
    """bf16: microseconds and the ratio to the first answer."""
    rows = [row for row in read(GPU_FILE) if row["dtype"] == "bf16" and row["sizes"] == LAYER]
    lines = [markdown(["weight", "N x K", "M = 1", *(str(m) for m in GPU_M[1:])]), "|" + "-|" * (len(GPU_M) + 2)]
    for weight in dict.fromkeys(row["weight"] for row in rows):
        of = {row["M"]: row for row in rows if row["weight"] == weight}
        cells = []
        for m in GPU_M:
            microseconds = float(of[m]["lathe us"])
            digits = max(0, 2 - math.floor(math.log10(microseconds)))
            cells.append(f"{microseconds:.{min(digits, 1)}f}, {of[m][FIRST]}")
        lines.append(markdown([weight, f"{of[1]['N']} x {of[1]['K']}", *cells]))
    return lines


def gguf_table(name):
    """A row for each format: the ratio to the best peer with one thread, and the share of reading at M = 1."""
    table = read(name)
    head = ["one thread", *(group[0] for group in GROUPS), "M = 1, of reading"]
    lines = [markdown(head), "|" + "-|" * len(head)]
    for dtype in (GGUF_32 + " " + GGUF_256).split():
        points = points_of(table, PEER, 1, "nt", dtype, LAYER)
        # SmolLM2's weights are small: reading one takes microseconds, too short to be a ceiling.
        reading = [value for _, value, weight in points_of(table, READING, 1, "nt", dtype, LAYER)
                   if not weight.startswith("smollm2")]
        lines.append(markdown([f"`{dtype}`", *(cell(in_group(points, group)) for group in GROUPS), percent(reading)]))
    return lines


def ggml_ratios(name):
    """{model: {(test, threads): ratio}}"""
    models = {}
    with open(ROOT / f"benchmarks/{name}.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            models.setdefault(row["model"], {})[row["test"], row["threads"]] = ratio(row["ratio"])
    return models


def ggml_pair(ratios, tests):
    """The ratios with one thread and with two; None where nothing was measured."""
    return [next((ratios[test, threads] for test in tests if (test, threads) in ratios), None)
            for threads in ("1", "2")]


def ggml_table(models, columns):
    lines = [markdown(["model", *(title for title, _ in columns)]),
             "|" + "-|" * (len(columns) + 1)]
    for name, ratios in models.items():
        pairs = [ggml_pair(ratios, tests) for _, tests in columns]
        lines.append(markdown([name, *(", ".join(cell([value]) for value in pair if value) for pair in pairs)]))
    return lines


# Charts.

WIDTH, LEFT, TOP, PANEL_WIDTH, PANEL_HEIGHT, GAP = 940, 56, 66, 156, 190, 20
GREY, ORANGE, BLUE = "#8c8c8c", "#d55e00", "#0072b2"
CPU_TICKS, GPU_TICKS = (1, 4, 16, 64, 512), (1, 8, 64, 512, 8192)


class Axes:
    """A panel: both axes logarithmic, M from 1 to the last tick."""

    def __init__(self, x, y, width, low, high, ticks=CPU_TICKS):
        self.x, self.y, self.width, self.height, self.low, self.high = x, y, width, PANEL_HEIGHT, low, high
        self.ticks = ticks

    def at(self, m, value):
        inner = self.width - 16
        share = (math.log2(value) - self.low) / (self.high - self.low)
        return self.x + 8 + math.log2(m) / math.log2(self.ticks[-1]) * inner, self.y + self.height - share * self.height

    def frame(self, title, with_values):
        out = [f'<text x="{self.x}" y="{self.y - 8}" font-weight="bold">{title}</text>'] if title else []
        for m in self.ticks:
            x, _ = self.at(m, 1)
            out.append(f'<line x1="{x:.1f}" y1="{self.y}" x2="{x:.1f}" y2="{self.y + self.height}" stroke="#eeeeee"/>')
            out.append(f'<text x="{x:.1f}" y="{self.y + self.height + 15}" text-anchor="middle">{m}</text>')
        for power in range(self.low, self.high + 1):
            _, y = self.at(1, 2.0 ** power)
            colour, width = ("#222222", 1.5) if power == 0 else ("#dddddd", 1)
            out.append(f'<line x1="{self.x}" y1="{y:.1f}" x2="{self.x + self.width}" y2="{y:.1f}" stroke="{colour}" '
                       f'stroke-width="{width}"/>')
            if with_values:
                out.append(f'<text x="{self.x - 6}" y="{y + 4:.1f}" text-anchor="end">{2.0 ** power:g}x</text>')
        out.append(f'<text x="{self.x + self.width / 2}" y="{self.y + self.height + 30}" text-anchor="middle">'
                   "M (rows of A)</text>")
        return out

    def dots(self, points, colour):
        path = "".join("M%.1f %.1fh0" % self.at(m, value) for m, value, _ in points)
        return [f'<path d="{path}" stroke="{colour}" stroke-width="4" stroke-linecap="round"/>'] if path else []

    def line(self, means, colour):
        path = " ".join("%.1f,%.1f" % self.at(m, value) for m, value in means)
        circles = "".join('<circle cx="%.1f" cy="%.1f" r="3.2" fill="%s"/>' % (*self.at(m, value), colour)
                          for m, value in means)
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', circles]


def powers_around(values):
    return min(-1, math.floor(math.log2(min(values)))), max(1, math.ceil(math.log2(max(values))))


def title_at(y, text):
    return f'<text x="{LEFT}" y="{y}" font-size="16">{text}</text>'


def legend(x, y, dots, lines):
    out = []
    for colour, text in dots:
        out.append(f'<circle cx="{x}" cy="{y - 4}" r="2.5" fill="{colour}"/><text x="{x + 8}" y="{y}">{text}</text>')
        x += 26 + 6.6 * len(text)
    for colour, text in lines:
        out.append(line_with_name(x, y, colour, text))
        x += 50 + 6.6 * len(text)
    return out


def line_with_name(x, y, colour, name):
    return (f'<line x1="{x}" y1="{y - 4}" x2="{x + 24}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{x + 12}" cy="{y - 4}" r="3.2" fill="{colour}"/><text x="{x + 32}" y="{y}">{name}</text>')


def chart_of(heading, parts):
    filters = {name: rest for name, *rest in ROWS}
    panels, lines = [], []
    for machine, prefix in parts:
        table = read(f"matmul-{machine}")
        panels += [(prefix + title, points_of(table, *filters[name])) for title, name in PANELS]
        lines += [(prefix + name.split(" / ")[0].replace("`", ""), means_of(points_of(table, *filters[name])), colour)
                  for name, colour in LINES]
    panels, lines = [panel for panel in panels if panel[1]], [line for line in lines if line[1]]
    out = [title_at(24, f"{heading}: time of the best peer over Lathe's (above 1x, Lathe is faster)"),
           *legend(LEFT + 4, 44, [(GREY, "one weight"), (ORANGE, "a router (8 to 256 columns)")],
                   [(BLUE, "geometric mean")])]
    low, high = powers_around([value for _, points in panels for _, value, _ in points])
    for i, (title, points) in enumerate(panels):
        axes = Axes(LEFT + i * (PANEL_WIDTH + GAP), TOP + 14, PANEL_WIDTH, low, high)
        out += axes.frame(title, i == 0)
        out += axes.dots([p for p in points if "router" not in p[2]], GREY)
        out += axes.dots([p for p in points if "router" in p[2]], ORANGE)
        out += axes.line(means_of(points), BLUE)
    height = TOP + 14 + PANEL_HEIGHT + 44
    if lines:
        out.append(title_at(height + 20, f"{heading}: time of Lathe's own f32 over its time for other types, "
                                         "one thread, geometric means"))
        low, high = powers_around([value for _, means, _ in lines for _, value in means])
        axes = Axes(LEFT, height + 36, 560, low, high)
        out += axes.frame("", True)
        for i, (title, means, colour) in enumerate(lines):
            out += axes.line(means, colour)
            out.append(line_with_name(LEFT + 580, height + 52 + 22 * i, colour, title))
        height += 36 + PANEL_HEIGHT + 44
    return svg(height, out)


def gpu_chart():
    table = read(GPU_FILE)
    panels = [(name, *(points_of(table, column, 1, "nt", dtype, LAYER) for column in (FIRST, BEST)))
              for name, dtype in GPU_DTYPES]
    out = [title_at(24, f"{GPU_TITLE}: time of cuBLASLt over Lathe's (above 1x, Lathe is faster)"),
           *legend(LEFT + 4, 44, [(GREY, "one weight, first answer")],
                   [(BLUE, "geometric mean, first answer"), (ORANGE, "geometric mean, best of eight")])]
    low, high = powers_around([value for _, first, _ in panels for _, value, _ in first])
    for i, (title, first, best) in enumerate(panels):
        axes = Axes(LEFT + i * (240 + GAP), TOP + 14, 240, low, high, GPU_TICKS)
        out += axes.frame(title, i == 0) + axes.dots(first, GREY)
        out += axes.line(means_of(best), ORANGE) + axes.line(means_of(first), BLUE)
    return svg(TOP + 14 + PANEL_HEIGHT + 44, out)


def gguf_chart(name, heading):
    table = read(name)
    panels = [(title, points_of(table, PEER, threads, "nt", dtypes, LAYER)) for title, dtypes, threads in GGUF_PANELS]
    panels = [panel for panel in panels if panel[1]]
    out = [title_at(24, f"{heading}: time of the best peer over Lathe's (above 1x, Lathe is faster)"),
           *legend(LEFT + 4, 44, [(GREY, "one weight in one format")], [(BLUE, "geometric mean")])]
    low, high = powers_around([value for _, points in panels for _, value, _ in points])
    for i, (title, points) in enumerate(panels):
        axes = Axes(LEFT + i * (200 + GAP), TOP + 14, 200, low, high)
        out += axes.frame(title, i == 0) + axes.dots(points, GREY) + axes.line(means_of(points), BLUE)
    return svg(TOP + 14 + PANEL_HEIGHT + 44, out)


def ggml_chart(heading, unit, models, columns):
    """A row for each model, a column for each test; dots are ratios on a logarithmic axis."""
    left, width, gap, row_height = 170, 120, 28, 20
    bottom = TOP + 14 + row_height * len(models)
    has_two = any(threads == "2" for ratios in models.values() for _, threads in ratios)
    out = [title_at(24, f"{heading}: {unit} with Lathe over those of its CPU backend (above 1x, Lathe is "
                        "faster)"), *legend(LEFT + 4, 44, [(BLUE, "one thread"), (ORANGE, "two threads")][:1 + has_two], [])]
    low, high = powers_around([value for ratios in models.values() for value in ratios.values()])
    for i, name in enumerate(models):
        out.append(f'<text x="{left - 12}" y="{TOP + 28 + row_height * i}" text-anchor="end">{name}</text>')
    for i, (title, tests) in enumerate(columns):
        x = left + i * (width + gap)
        out.append(f'<text x="{x}" y="{TOP + 6}" font-weight="bold">{title}</text>')
        for power in range(low, high + 1):
            at = x + (power - low) / (high - low) * width
            out.append(f'<line x1="{at:.1f}" y1="{TOP + 14}" x2="{at:.1f}" y2="{bottom}" '
                       f'stroke="{"#222222" if power == 0 else "#dddddd"}"/>')
            out.append(f'<text x="{at:.1f}" y="{bottom + 15}" text-anchor="middle">{2.0 ** power:g}x</text>')
        for j, ratios in enumerate(models.values()):
            for value, colour in zip(ggml_pair(ratios, tests), (BLUE, ORANGE)):
                if value:
                    at = x + (math.log2(value) - low) / (high - low) * width
                    out.append(f'<circle cx="{at:.1f}" cy="{TOP + 24 + row_height * j}" r="3.6" fill="{colour}"/>')
    return svg(bottom + 30, out)


def svg(height, elements):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
            f'font-size="12">\n<rect width="{WIDTH}" height="{height}" fill="white"/>\n')
    return head + "\n".join(elements) + "\n</svg>\n"


def made():
    """Every chart and every table: document, file name of the chart, its text, heading, tables."""
    for name, heading, parts in CHARTS:
        yield "cpu-speed.md", f"cpu-{name}.svg", chart_of(heading, parts), heading, [table_of(parts)]
    yield "gpu-speed.md", "gpu-h200.svg", gpu_chart(), GPU_TITLE, [gpu_table(), gpu_weights_table()]
    for name, heading in GGUF_MACHINES:
        yield "gguf-speed.md", f"{name}.svg", gguf_chart(name, heading), heading, [gguf_table(name)]
    for document, name, heading, unit, columns in GGML:
        models = ggml_ratios(name)
        chart = ggml_chart(heading, unit, models, columns)
        yield document, f"{name}.svg", chart, heading, [ggml_table(models, columns)]


def check():
    problems = []
    for document, file, chart, heading, tables in made():
        text = (ROOT / "docs" / document).read_text(encoding="utf-8")
        path = ROOT / "docs" / file
        if not path.exists() or path.read_text(encoding="utf-8") != chart:
            problems.append(f"{path} differs from the CSV files: run benchmarks/speed_charts.py")
        rows = [row for table in tables for row in table]
        problems += [f"docs/{document} lacks a row of {heading}: {row}" for row in rows if row not in text]
    print("\n".join(problems) or "charts and tables agree with the CSV files")
    return 1 if problems else 0


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    if len(sys.argv) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    for _, file, chart, heading, tables in made():
        (ROOT / "docs" / file).write_text(chart, encoding="utf-8")
        for table in tables:
            print(f"\n## {heading}\n", *table, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
