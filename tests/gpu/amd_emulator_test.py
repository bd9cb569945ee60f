#!/usr/bin/env python3
"""Tests single instructions in the emulator of AMD's instruction sets, as fixed by amd_emulator.py.

usage: amd_emulator_test.py ASSEMBLER LINKER      (llvm-mc, ld.lld)
Without an emulator it says so and exits with 77, which CTest counts as skipped. Each architecture runs in a process.
"""
import multiprocessing
import os
import struct
import subprocess
import sys
import tempfile

import amd_emulator

# The input dword of each lane is in v2, its result goes to v3.
_KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_and_b32 v0, 0x3ff, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  {body}
  global_store_dword v1, v3, s[6:7]
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel kernel
  .amdhsa_next_free_vgpr 160
  .amdhsa_next_free_sgpr 16
  {more}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_kernarg_size 16
.end_amdhsa_kernel
"""
_MORE = {"gfx942": ".amdhsa_accum_offset 160", "gfx90a": ".amdhsa_accum_offset 160",
         "gfx1100": ".amdhsa_wavefront_size32 1"}


def f32(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def of_half(code):
    return struct.unpack("<e", struct.pack("<H", code & 0xFFFF))[0]


# 1, the smallest subnormal f16, another one, the largest one, the smallest normal f16.
HALVES = [0x3C00, 0x0001, 0x83A6, 0x03FF, 0x0400]
WIDE = [f32(of_half(h)) for h in HALVES]
# Another value in the register that the emulator would access instead of v130.
_SPOIL = "v_mov_b32 v2, 0x44444444"

# Name, architectures, instructions, input dwords, expected dwords.
CASES = [
    ("subnormal f16 to f32", ("gfx90a", "gfx942", "gfx1100"), "v_cvt_f32_f16_e32 v3, v2", HALVES, WIDE),
    ("subnormal f16 of the upper half to f32", ("gfx90a", "gfx942"),
     "v_cvt_f32_f16_sdwa v3, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",
     [h << 16 | 0x4444 for h in HALVES], WIDE),
    ("f32 to subnormal f16", ("gfx90a", "gfx942", "gfx1100"), "v_mov_b32 v3, 0\nv_cvt_f16_f32_e32 v3, v2", WIDE, HALVES),
    ("VOP1 reads v130", ("gfx90a", "gfx942"), f"v_mov_b32 v130, v2\n{_SPOIL}\nv_cvt_f32_f16_e32 v3, v130", HALVES, WIDE),
    ("VOP1 writes v130", ("gfx90a", "gfx942"),
     "v_mov_b32 v4, v2\nv_mov_b32 v2, 0x4444\nv_cvt_f16_f32_e32 v130, v4\nv_lshl_or_b32 v3, v2, 16, v130",
     WIDE, [h | 0x44440000 for h in HALVES]),
    ("VOP2 reads and writes v129 to v131", ("gfx90a", "gfx942"),
     f"v_mov_b32 v130, v2\nv_mov_b32 v131, 0x4000\n{_SPOIL}\nv_mul_f16_e32 v129, v130, v131\nv_mov_b32 v3, v129",
     [0x3C00, 0x4200, 0xC500], [0x4000, 0x4600, 0xC900]),
    ("VOPC compares v130 with v131", ("gfx90a", "gfx942"),
     f"v_mov_b32 v130, v2\nv_mov_b32 v131, 0x3C00\n{_SPOIL}\nv_mov_b32 v3, 0\n"
     "v_cmp_lt_f16_e32 vcc, v130, v131\nv_cndmask_b32_e64 v3, 0, 1, vcc", [0x3800, 0x3C00, 0x4000, 0xC000], [1, 0, 0, 1]),
    # Here the upper half is meant: v2.h is encoded as v130.
    ("VOP1 of gfx11 reads upper halves", ("gfx1100",), "v_cvt_f32_f16_e32 v3, v2.h", [h << 16 | 0x4444 for h in HALVES], WIDE),
]


def run(arch, assembler, linker):
    emulator, wrong = amd_emulator.load(), 0
    for name, architectures, body, given, expected in CASES:
        if arch not in architectures:
            continue
        with tempfile.TemporaryDirectory() as directory:
            def file(name, directory=directory):
                return os.path.join(directory, name)
            with open(file("kernel.s"), "w") as f:
                f.write(_KERNEL.format(arch=arch, body=body, more=_MORE[arch]))
            features = ["-mattr=+real-true16"] if "v2.h" in body else ["-mattr=-real-true16"] if arch == "gfx1100" else []
            subprocess.run([assembler, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", *features, "-filetype=obj",
                            file("kernel.s"), "-o", file("kernel.o")], check=True)
            subprocess.run([linker, "-shared", file("kernel.o"), "-o", file("kernel.hsaco")], check=True)
            source, source_at = emulator.buffer(given, "I")
            result, result_at = emulator.buffer([0xAAAAAAAA] * len(given), "I")
            emulator.CodeObject(file("kernel.hsaco")).run("kernel", (1, 1, 1), (len(given), 1, 1),
                                                          struct.pack("<QQ", source_at, result_at), arch)
        found = list(emulator.read(result, len(given), "I"))
        right = found == expected
        wrong += not right
        print(f"{arch}: {name}: {'right' if right else 'wrong'}", flush=True)
        if not right:
            print(f"  {[hex(x) for x in found]} is not {[hex(x) for x in expected]}")
    return wrong


def main():
    if amd_emulator.missing():
        print(f"skipped (no emulator: {amd_emulator.missing()})")
        return 77
    # One process per architecture.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        return 1 if sum(pool.starmap(run, [(arch, *sys.argv[1:3]) for arch in _MORE], chunksize=1)) else 0


if __name__ == "__main__":
    sys.exit(main())
