"""Compiles kernels with the `lathe` command and launches the steps of their recipe in the emulator."""
import ctypes
import json
import math
import mmap
import re
import struct
import subprocess
import tempfile

PAGE = mmap.PAGESIZE
PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class GuardedMemory:
    """Bytes between two pages that fault. `at_end` places them directly before the second page, else after the first."""

    def __init__(self, data, at_end=True, alignment=1):
        at_end = at_end and len(data) % alignment == 0
        self.bytes = len(data)
        pages = max(1, -(-len(data) // PAGE))
        self._map = mmap.mmap(-1, (pages + 2) * PAGE)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._offset = PAGE + (pages * PAGE - len(data) if at_end else 0)
        self._map[self._offset:self._offset + len(data)] = data
        for guard in (base, base + (pages + 1) * PAGE):
            if _libc.mprotect(guard, PAGE, PROT_NONE) != 0:
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = base + self._offset
        self.guard = base

    def write(self, data):
        self._map[self._offset:self._offset + self.bytes] = data

    def read(self):
        return self._map[self._offset:self._offset + self.bytes]


def argument_fields(args_header):
    """[(kind, name)] of the argument block, parsed from the table in the sources."""
    with open(args_header) as f:
        fields = re.findall(r"^\s*X\((ptr|i64|i32|f32), (\w+)\)", f.read(), re.M)
    if len(fields) < 20:
        raise ValueError(f"{args_header}: no argument block found")
    return fields


def evaluate(formula, variables):
    """Evaluates [[coefficient, ["m", 32], ...], ...]: a sum of products of ceil(variable / divisor)."""
    total = 0
    for coefficient, *factors in formula:
        total += coefficient * math.prod(-(-variables[name] // divisor) for name, divisor in factors)
    return total


class Artifact:
    """The code object and the recipe of a kernel, compiled from the arguments of `lathe dump`."""

    def __init__(self, lathe, facts, arch, arguments, emulator):
        self.arch = arch
        self.directory = tempfile.TemporaryDirectory(prefix=f"lathe-{arch}-")
        done = subprocess.run([lathe, "dump", *arguments, "--facts", facts, "--target", arch, "--cache-dir", "",
                               "--output", self.directory.name], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"lathe dump {' '.join(arguments)}: {done.stderr.strip()}")
        with open(f"{self.directory.name}/recipe.json") as f:
            self.recipe = json.load(f)
        with open(f"{self.directory.name}/00-payload.mlir") as f:
            self._payload = f.read()
        self.code = emulator.CodeObject(f"{self.directory.name}/kernel.hsaco")

    def config(self, name):
        """A field of the kernel_config in the payload."""
        return int(re.search(rf"\b{name} = (\d+)", self._payload)[1])

    @property
    def alignment(self):
        """The alignment in bytes that the kernel expects of every operand's address."""
        return self.recipe["pointer_alignment"]

    def split(self, length, wanted, rows=1):
        """(splits, k_chunk): chunks of equal length, none of them empty. `rows` share the splits of an argmax."""
        granularity = self.recipe["k_granularity"]
        wanted = max(-(-wanted // rows), -(-length // self.recipe["k_most"]))
        chunk = -(-(-(-length // wanted)) // granularity) * granularity
        return -(-length // chunk), chunk

    def workspace(self, variables):
        return GuardedMemory(b"\xff" * evaluate(self.recipe["workspace_bytes"], variables))

    def counters(self, variables):
        return GuardedMemory(bytes(4 * evaluate(self.recipe["counters"], variables)))

    def launch(self, fields, values, variables):
        """Runs every step. `values` maps fields of the argument block to numbers. Returns the number of launches."""
        # Pointers that the request does not set point to memory that faults.
        nowhere = GuardedMemory(b"")
        formats = {"ptr": "Q", "i64": "q", "i32": "i", "f32": "f"}
        launches = 0
        counters = self.counters(variables)
        if counters.bytes:
            values = values | {"counters": counters.address}
        block = b"".join(struct.pack("<" + formats[kind], values.get(name, nowhere.guard if kind == "ptr" else 0))
                         for kind, name in fields)
        for step in self.recipe["steps"]:
            if step["kind"] != "gpu_kernel" or step["argument_bytes"] != len(block):
                raise ValueError(f"recipe step {step} is not a GPU kernel with an argument block of {len(block)} bytes")
            grid = [evaluate(f, variables) for f in step["grid"]]
            if 0 in grid:
                continue
            self.code.run(step["symbol"], grid, step["block"], block, self.arch)
            launches += 1
        if any(counters.read()):
            raise RuntimeError("a counter was not left at 0")
        return launches


def say(text):
    print(text, flush=True)
