"""Runs kernels of code objects for the emulated HIP device. worker.cc sends requests, one per line of standard input:

    arena BASE BYTES FD          maps device memory from the file at these addresses
    allow ADDRESS BYTES | forbid ADDRESS BYTES    pages that a kernel may access; accesses to all others fault
    load ID PATH                 loads a code object; answers "ok SYMBOL:LDS:THREADS ..." (LDS bytes of a workgroup, its
                                 largest number of threads)
    launch ID SYMBOL GX GY GZ BX BY BZ DYNAMIC_LDS ARCH PARAMETERS-IN-HEX

The answer to each is one line, "ok ..." or "error TEXT". A fault in a kernel ends the process.
"""
import ctypes
import faulthandler
import json
import mmap
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import amd_emulator  # noqa: E402

MAP_FIXED_NOREPLACE = 0x100000
PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def kernels_of(path):
    """{symbol: (LDS bytes, largest number of threads)} from the metadata of the code object."""
    for tool in ("llvm-readobj-22", "llvm-readobj"):
        try:
            done = subprocess.run([tool, "--notes", "--elf-output-style=JSON", path], capture_output=True, text=True)
            break
        except FileNotFoundError:
            continue
    else:
        raise RuntimeError("llvm-readobj is not on PATH")
    kernels, current = {}, {}
    # The note contains YAML of a fixed form: a list with one mapping per kernel.
    notes = json.loads(done.stdout)
    text = next(note["AMDGPU Metadata"] for part in notes for section in part["NoteSections"]
                for note in section["NoteSection"]["Notes"] if "AMDGPU Metadata" in note)
    for line in text.splitlines():
        name, _, value = line.strip(" -").partition(":")
        if line.startswith("  - "):
            current = {}
        if name in (".group_segment_fixed_size", ".max_flat_workgroup_size"):
            current[name] = int(value)
        if name == ".symbol":
            current["symbol"] = value.strip().strip("'").removesuffix(".kd")
        if len(current) == 3:
            kernels[current["symbol"]] = (current[".group_segment_fixed_size"], current[".max_flat_workgroup_size"])
    return kernels


class Worker:
    def __init__(self):
        self.emulator = amd_emulator.load()
        self.objects = {}

    def arena(self, base, size, fd):
        flags = mmap.MAP_SHARED | MAP_FIXED_NOREPLACE
        at = _libc.mmap(int(base), int(size), PROT_NONE, flags, int(fd), 0)
        if at != int(base):
            raise OSError(ctypes.get_errno(), "the addresses of the device are in use")

    def allow(self, address, size):
        self._protect(address, size, mmap.PROT_READ | mmap.PROT_WRITE)

    def forbid(self, address, size):
        self._protect(address, size, PROT_NONE)

    def _protect(self, address, size, protection):
        first = int(address) & -mmap.PAGESIZE
        if _libc.mprotect(first, int(address) + int(size) - first, protection) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def load(self, number, path):
        self.objects[number] = self.emulator.CodeObject(path)
        return " ".join(f"{symbol}:{lds}:{threads}" for symbol, (lds, threads) in kernels_of(path).items())

    def unload(self, number):
        del self.objects[number]

    def launch(self, number, symbol, *rest):
        *sizes, lds, arch, parameters = rest
        sizes = [int(size) for size in sizes]
        self.objects[number].run(symbol, sizes[:3], sizes[3:], bytes.fromhex(parameters), arch, dynamic_lds=int(lds))


def main():
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of the emulator itself must not mix with the answers
    worker = Worker()
    print("ok", file=answers, flush=True)
    for line in sys.stdin:
        what, *arguments = line.split()
        try:
            answer = "ok " + (getattr(worker, what)(*arguments) or "")
        except Exception as error:  # pylint: disable=broad-except
            answer = "error " + " ".join(f"{type(error).__name__}: {error}".split())
        print(answer, file=answers, flush=True)


if __name__ == "__main__":
    main()
