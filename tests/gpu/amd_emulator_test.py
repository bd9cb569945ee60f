#!/usr/bin/env python3
"""Tests single instructions in the emulator of AMD's instruction sets, as fixed by amd_emulator.py.

usage: amd_emulator_test.py ASSEMBLER LINKER      (llvm-mc, ld.lld)
Without an emulator it says so and exits with 77, which CTest counts as skipped. Each architecture runs in a process.
"""
import multiprocessing
import os
import random
import struct
import subprocess
import sys
import tempfile

import amd_emulator

# Gets the addresses of what it reads and of its results. v0 is the number of the lane.
_KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl kernel
.p2align 8
.type kernel,@function
kernel:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_and_b32 v0, 0x3ff, v0
  s_waitcnt lgkmcnt(0)
  {body}
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
# The input dword of each lane is in v2, its result goes to v3.
_ONE_DWORD = """
  v_lshlrev_b32_e32 v1, 2, v0
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  {body}
  global_store_dword v1, v3, s[6:7]
"""
_MORE = {"gfx942": ".amdhsa_accum_offset 160", "gfx950": ".amdhsa_accum_offset 160",
         "gfx90a": ".amdhsa_accum_offset 160",
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


# The product of blocks with scales (gfx950). Each lane has 18 dwords: 8 of A, 8 of B, and a word of scales of each.
_SCALED = """
  v_mul_u32_u24 v1, 72, v0
  global_load_dwordx4 v[16:19], v1, s[4:5]
  global_load_dwordx4 v[20:23], v1, s[4:5] offset:16
  global_load_dwordx4 v[32:35], v1, s[4:5] offset:32
  global_load_dwordx4 v[36:39], v1, s[4:5] offset:48
  global_load_dwordx2 v[2:3], v1, s[4:5] offset:64
  s_waitcnt vmcnt(0)
  {instruction} v[64:{last}], v[16:{last_a}], v[32:{last_b}], 0, v2, v3 {byte} cbsz:{a} blgp:{b}
  s_nop 15
  s_nop 15
  v_mul_u32_u24 v1, {size}, v0
  {stores}
"""
# By the instruction's numbers: bits, those of exponent and fraction, and the bias.
_FORMATS = {0: (8, 4, 3, 7), 1: (8, 5, 2, 15), 4: (4, 2, 1, 1)}


def value_of(code, number):
    _, exponent_bits, fraction_bits, bias = _FORMATS[number]
    exponent, fraction = code >> fraction_bits & (1 << exponent_bits) - 1, code & (1 << fraction_bits) - 1
    magnitude = (fraction / 2**fraction_bits + (exponent > 0)) * 2.0**(max(exponent, 1) - bias)
    return -magnitude if code >> exponent_bits + fraction_bits else magnitude


class Scaled:
    """A row of A or a column of B for each of `edge` lines: random codes, none NaN, and scales."""

    def __init__(self, number, edge):
        self.number, self.groups = number, 64 // edge
        self.codes = [[random.randrange(16) if number == 4 else random.randrange(0x18, 0x60) | random.randrange(2) << 7
                       for _ in range(32 * self.groups)] for _ in range(edge)]
        self.scales = [[random.randrange(120, 134) for _ in range(self.groups)] for _ in range(edge)]

    def value(self, line, k):
        return value_of(self.codes[line][k], self.number) * 2.0**(self.scales[line][k // 32] - 127)

    def of_lane(self, line, group):
        codes = self.codes[line]
        if self.number == 4:
            pairs = codes[32 * group:32 * group + 32]
            return bytes(pairs[i] | pairs[i + 1] << 4 for i in range(0, 32, 2)) + bytes(16)
        return b"".join(bytes(codes[16 * run:16 * run + 16]) for run in (group, self.groups + group))


def scaled_case(edge, number_a, number_b, byte_a, byte_b):
    """The body, dwords of the lanes, and expected results of each lane."""
    a, b, count = Scaled(number_a, edge), Scaled(number_b, edge), edge * edge // 64
    lanes, expected = b"", []
    for lane in range(64):
        line, group = lane % edge, lane // edge
        words = [bytes(x.scales[line][group] if i == byte else 255 for i in range(4))
                 for x, byte in ((a, byte_a), (b, byte_b))]
        lanes += a.of_lane(line, group) + b.of_lane(line, group) + words[0] + words[1]
        for i in range(count):
            row = lane // 16 * 4 + i if edge == 16 else 8 * (i // 4) + 4 * (lane // 32) + i % 4
            expected.append(sum(a.value(row, k) * b.value(line, k) for k in range(32 * a.groups)))
    body = _SCALED.format(
        instruction="v_mfma_scale_f32_" + ("16x16x128" if edge == 16 else "32x32x64") + "_f8f6f4",
        last=63 + count, last_a=19 if number_a == 4 else 23, last_b=35 if number_b == 4 else 39, a=number_a, b=number_b,
        byte=f"op_sel:[{byte_a & 1},{byte_b & 1},0] op_sel_hi:[{byte_a >> 1},{byte_b >> 1},0]", size=4 * count,
        stores="\n".join(f"global_store_dword v1, v{64 + i}, s[6:7] offset:{4 * i}" for i in range(count)))
    return body, struct.unpack("<1152I", lanes), expected


def launch(emulator, arch, assembler, linker, kernel, given, results, lanes):
    """The result dwords of a kernel that gets two pointers."""
    with tempfile.TemporaryDirectory() as directory:
        def file(name):
            return os.path.join(directory, name)
        with open(file("kernel.s"), "w") as f:
            f.write(kernel)
        features = ["-mattr=+real-true16"] if "v2.h" in kernel else ["-mattr=-real-true16"] if arch == "gfx1100" else []
        subprocess.run([assembler, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", *features, "-filetype=obj",
                        file("kernel.s"), "-o", file("kernel.o")], check=True)
        subprocess.run([linker, "-shared", file("kernel.o"), "-o", file("kernel.hsaco")], check=True)
        source, source_at = emulator.buffer(given, "I")
        result, result_at = emulator.buffer([0xAAAAAAAA] * results, "I")
        emulator.CodeObject(file("kernel.hsaco")).run("kernel", (1, 1, 1), (lanes, 1, 1),
                                                      struct.pack("<QQ", source_at, result_at), arch)
        return list(emulator.read(result, results, "I"))


def run_scaled(emulator, arch, assembler, linker):
    wrong = 0
    random.seed(7)
    for edge in (16, 32):
        for a, b in ((0, 0), (1, 4), (4, 0), (4, 4)):
            body, given, expected = scaled_case(edge, a, b, random.randrange(4), random.randrange(4))
            kernel = _KERNEL.format(arch=arch, body=body, more=_MORE[arch])
            found = launch(emulator, arch, assembler, linker, kernel, given, len(expected), 64)
            found = struct.unpack(f"<{len(found)}f", struct.pack(f"<{len(found)}I", *found))
            right = all(abs(x - y) <= 1e-4 * max(1, abs(y)) for x, y in zip(found, expected))
            wrong += not right
            print(f"{arch}: scaled product of {edge} x {edge}, formats {a} and {b}: {'right' if right else 'wrong'}",
                  flush=True)
    return wrong


def run(arch, assembler, linker):
    emulator = amd_emulator.load()
    wrong = run_scaled(emulator, arch, assembler, linker) if arch == "gfx950" else 0
    for name, architectures, body, given, expected in CASES:
        if arch not in architectures:
            continue
        kernel = _KERNEL.format(arch=arch, body=_ONE_DWORD.format(body=body), more=_MORE[arch])
        found = launch(emulator, arch, assembler, linker, kernel, given, len(given), len(given))
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
