"""The requests of the first minutes on a device, by kernel family, one per line as `lathe run` takes them."""

# The options of `lathe run` for each column of the table.
DTYPES = {
    "f32": "--dtype f32", "tf32": "--dtype f32 --math tf32", "f16": "--dtype f16", "bf16": "--dtype bf16",
    "i8": "--dtype i8 --out-dtype i32", "fp8": "--dtype f8e4m3 --out-dtype bf16",
}
PRODUCTS = ("simt", "mma", "wgmma", "skinny", "ukernel")
M = (1, 7, 16, 64, 300)
# None is a multiple of a tile. With ALIGNED_K rows are multiples of 16 bytes, which tensor copies need; with ODD_K they
# are not.
N, ALIGNED_K, ODD_K = 336, 1072, 1031


def product(m, n, k, dtype, layout, split=0):
    return (f"matmul {m}x{n}x{k} {DTYPES[dtype]}" + (f" --layout {layout}" if layout != "nt" else "") +
            (f" --split-k {split}" if split else ""))


def products(dtype, smoke):
    if smoke:
        return [product(m, 72, 80, dtype, layout, 1) for layout in ("nt", "nn") for m in (1, 16)] + [
            product(16, 72, 80, dtype, "nt", 5)]
    lines = [product(m, N, k, dtype, layout, split)
             for k, split in ((ALIGNED_K, 1), (ALIGNED_K, 5), (ODD_K, 1), (ODD_K, 5))
             for layout in ("nt", "nn") for m in M]
    # Epilogues, a batch, exact sums of integers, and the same bits in every run.
    extras = [" --batch 3", " --fill integers", " --determinism run_to_run --split-k 5", " --padding 16"]
    if dtype != "i8":  # i8 with sums in i32 has no epilogue
        extras.append(" --epilogue alpha=0.5,beta=-0.75,bias,gelu,residual")
    return lines + [product(m, N, ALIGNED_K, dtype, "nt") + extra for m in (7, 64, 300) for extra in extras]


def argmaxes(dtype, smoke):
    if smoke:
        return [f"argmax {rows}x1000 --dtype {dtype} --values" for rows in (1, 7)]
    return [f"argmax {rows}x{n} --dtype {dtype} --values{fill}"
            for fill in ("", " --fill special") for n in (1000, 4099, 32000, 128256) for rows in (1, 7, 32, 300)]


def heads(dtype, smoke):
    if smoke:
        return [f"matmul_argmax {m}x200x80 --dtype {dtype} --values" for m in (1, 16)]
    return [f"matmul_argmax {m}x{n}x{k} --dtype {dtype} --values{fill}"
            for fill in ("", " --fill integers") for n, k in ((2000, ALIGNED_K), (1031, ODD_K)) for m in M]


class Group:
    """The requests of one process: one cell of the table."""

    def __init__(self, row, column, lines, family="", flags=(), environment=None):
        self.row, self.column, self.lines, self.family = row, column, lines, family
        self.flags, self.environment = list(flags), dict(environment or {})

    @property
    def name(self):
        return f"{self.row.replace(' ', '-')}-{self.column}"


def groups(smoke=False):
    """All groups, the most important first."""
    floats, columns = ("bf16", "f16", "f32"), ("bf16", "f16", "fp8", "i8", "tf32", "f32")
    if smoke:
        floats, columns = ("bf16",), ("bf16",)
    made = [Group(family, dtype, products(dtype, smoke), family)
            for dtype in columns for family in ("wgmma", "skinny", "mma", "simt", "ukernel")]
    made += [Group("argmax", dtype, argmaxes(dtype, smoke), "rows") for dtype in floats]
    made += [Group("argmax ukernel", dtype, argmaxes(dtype, smoke), "ukernel") for dtype in floats]
    made += [Group(f"matmul_argmax {family}", dtype, heads(dtype, smoke), family)
             for dtype in floats for family in ("skinny", "wgmma", "mma", "simt")]
    # Only the shipped fallback kernels: there is no compiler and no cache.
    generic = {"LATHE_COMPILER_LIBRARY": "/nonexistent/liblathe-compiler.so", "LATHE_BUNDLES": "", "LATHE_CACHE_DIR": ""}
    for dtype in columns:
        lines = [line.split(" --split-k")[0] for line in products(dtype, smoke) if "--determinism" not in line]
        lines = list(dict.fromkeys(lines))
        if dtype in floats:
            lines += argmaxes(dtype, smoke)[:8] + heads(dtype, smoke)[:5]
        made.append(Group("generic", dtype, lines, flags=["--miss", "fallback"], environment=generic))
    if not smoke:
        made.append(Group("self-test", "every op", []))
    return made


# The weights for the speed measurements, in the format of shapes.csv.
SPEED_WEIGHTS = """model,layer,n,k
llama3-8b,qkv,6144,4096
llama3-8b,gate_up,28672,4096
llama3-8b,down,4096,14336
llama3-70b-tp8,qkv,1280,8192
deepseek-v3,o,7168,16384
qwen2.5-7b,o,3584,3584
"""
SPEED_WEIGHTS_BYTES = """model,layer,n,k
llama3-8b,qkv,6144,4096
llama3-8b,down,4096,14336
"""
SPEED_M = (1, 512, 16, 8192, 8, 2048)
CANDIDATES = 4


def speed_requests():
    """The requests of the speed part, for the bundle."""
    def weights(text):
        return [row.split(",")[2:] for row in text.strip().splitlines()[1:]]
    lines = [f"matmul {m}x{n}x{k} --dtype bf16" for m in SPEED_M for n, k in weights(SPEED_WEIGHTS)]
    lines.append("matmul 123x456x51234 --dtype bf16")
    for dtype in ("fp8", "i8"):
        lines += [f"matmul {m}x{n}x{k} {DTYPES[dtype]}" for m in SPEED_M for n, k in weights(SPEED_WEIGHTS_BYTES)]
    return lines
