#!/usr/bin/env python3
"""Compiles the matrix-instruction plans for AMD's GPUs and reads their code objects, without a GPU.

usage: check_amd_code.py LATHE FACTS_FOLDER LLVM_BIN [--full] [SUBSTRING]
  LLVM_BIN holds llvm-readobj and llvm-objdump. Every facts file of a target with matrix instructions is taken, every
  type it multiplies and a few shapes: the first plans of the family, with --full all of them. SUBSTRING picks lines.

Each must have no scratch and no spills, the wave its target has, the workgroup's size as a requirement, no more LDS
than the device, and in its inner loop the matrix instructions of its type, reads of 16 bytes from LDS and, rows being
aligned, loads of 16 bytes from memory. A line says what the loop is made of, for one wave, and what fraction of the
matrix rate the loop alone allows by a simple model (a bound, never a measurement): an iteration takes what the busiest
of the matrix units, the LDS, the vector units and the latency of a load from L2 takes, and a barrier.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TYPES = {"gfx90a": ("f32", "f16", "bf16", "i8"), "gfx942": ("f32", "f16", "bf16", "i8", "f8e4m3", "f8e4m3fnuz", "f8e5m2fnuz"),
         "gfx950": ("f32", "f16", "bf16", "i8", "f8e4m3", "f8e5m2"), "gfx1100": ("f16", "bf16", "i8"),
         "gfx1201": ("f16", "bf16", "i8", "f8e4m3", "f8e5m2")}
SHAPES = (("4096x4096x4096", "nt"), ("64x4096x4096", "nt"), ("512x4096x14336", "nn"), ("123x456x51234", "nt"))
SUFFIX = {"f32": "f32", "f16": "f16", "bf16": "bf16(_1k)?", "i8": "i?u?8", "f8e4m3": "fp8_fp8", "f8e5m2": "bf8_bf8",
          "f8e4m3fnuz": "fp8_fp8", "f8e5m2fnuz": "bf8_bf8"}
# Cycles on one SIMD by (type, architecture): of 16 x 16, of 32 x 32 (kernels/matmul/matrix_instruction.h has sources).
CYCLES = {"gfx90a": (32, 64), "gfx942": (16, 32), "gfx950": (16, 32), "gfx1100": (32, 0), "gfx1201": (16, 0)}
L2_CYCLES, BARRIER_CYCLES = 700, 40  # latency of a load under load, and of a barrier (estimates)
LDS_BYTES = 128  # a cycle


def cycles_of(arch, dtype, edge):
    if dtype == "f32":
        return 32 if edge == 16 else 64
    if arch == "gfx1201" and dtype not in ("f16", "bf16"):
        return 8
    return CYCLES[arch][edge == 32]


def tool(path, *arguments):
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True).stdout


def plans(text, full):
    """[(rank, plan)] of the family, splits and rasters aside."""
    found = {}
    for rank, plan in re.findall(r"^ +(\d+) +\S+ [mun]?s +(mma.*)$", text, re.M):
        found.setdefault(re.sub(r" +(raster \d+|splits.*)", "", plan), rank)
    rows = [(rank, plan) for plan, rank in found.items()]
    return rows if full else rows[:2]


def inner_loop(listing):
    """The instructions of the loop with the most matrix instructions."""
    lines = [(int(at, 16), text, target) for text, at, target in
             re.findall(r"^\t(\S.*?)\s*// ([0-9A-F]+): [0-9A-F ]+(?:<.*?\+0x([0-9a-f]+)>)?$", listing, re.M)]
    place = {at: i for i, (at, _, _) in enumerate(lines)}
    start = int(re.search(r"^([0-9a-f]+) <(?!.*_merge)", listing, re.M)[1], 16)
    best = []
    for i, (_, text, target) in enumerate(lines):
        first = place.get(start + int(target, 16)) if target and text.startswith("s_cbranch") else None
        if first is not None and first < i:
            body = [t for _, t, _ in lines[first:i + 1]]
            if sum(is_matrix(t) for t in body) > sum(is_matrix(t) for t in best):
                best = body
    return best


def is_matrix(text):
    return text.startswith(("v_mfma", "v_wmma"))


def count(body, pattern):
    return sum(bool(re.match(pattern, text)) for text in body)


def predicted(body, arch, dtype, plan, notes):
    simds, wave = (4, 64) if arch.startswith("gfx9") else (2, 32)
    waves = notes["threads"] // wave
    groups = max(1, min(notes["lds_limit"] // max(notes["lds"], 1), notes["registers"] // (notes["vgpr"] * notes["threads"])))
    per_simd = waves * groups / simds
    edge = 32 if plan.startswith("mma32") else 16
    matrix = count(body, "v_mfma|v_wmma") * cycles_of(arch, dtype, edge) * per_simd
    lds = (count(body, "ds_(read|load|write|store)_b128") * 16 * wave * waves * groups) / LDS_BYTES
    vector = (len(body) - count(body, "s_|v_mfma|v_wmma")) * per_simd * (4 if wave == 64 else 1)
    return matrix / (max(matrix, lds, vector, L2_CYCLES) + BARRIER_CYCLES)


def check(lathe, facts_file, facts, llvm, arch, dtype, shape, layout, rank, plan):
    """(line, what is wrong or "")."""
    with tempfile.TemporaryDirectory(prefix="lathe-code-") as folder:
        done = subprocess.run([lathe, "dump", "matmul", shape, "--dtype", dtype, "--layout", layout, "--facts", facts_file,
                               "--cache-dir", "", "--candidate", rank, "--output", folder], capture_output=True, text=True)
        if done.returncode:
            return "", done.stderr.strip()
        code = f"{folder}/kernel.hsaco"
        text = tool(f"{llvm}/llvm-readobj", "--notes", code)
        listing = tool(f"{llvm}/llvm-objdump", "-d", code)
        with open(f"{folder}/recipe.json") as f:
            recipe = json.load(f)
    first = text[:text.find("_merge")] if "_merge" in text else text

    def note(name, within=text):
        return [int(x) for x in re.findall(rf"\.{name}: +(\d+)", within)]

    notes = {"vgpr": note("vgpr_count", first)[0], "agpr": (note("agpr_count", first) or [0])[0],
             "sgpr": note("sgpr_count", first)[0], "lds": max(note("group_segment_fixed_size")),
             "scratch": max(note("private_segment_fixed_size")), "wave": note("wavefront_size")[0],
             "spills": sum(note("vgpr_spill_count") + note("sgpr_spill_count")),
             "threads": recipe["steps"][0]["block"][0], "lds_limit": int(facts["shared_memory_bytes"]["value"]),
             "registers": int(facts["registers_per_unit"]["value"])}
    body = inner_loop(listing)
    matrix = count(body, rf"v_(mfma|wmma)_\w+?_\d+x\d+x\d+_?{SUFFIX[dtype]}(_e64)?\b")
    loads, reads = count(body, "(global|buffer)_load_(dwordx4|b128)"), count(body, "ds_(read|load)_b128")
    problems = []
    for name in ("scratch", "spills"):
        problems += [f"{name} {notes[name]}"] if notes[name] else []
    problems += [f"wave {notes['wave']}"] if notes["wave"] != (64 if arch.startswith("gfx9") else 32) else []
    problems += [f"LDS {notes['lds']} > {notes['lds_limit']}"] if notes["lds"] > notes["lds_limit"] else []
    required = re.search(r"\.reqd_workgroup_size:\s+- (\d+)", text)
    problems += ["no required workgroup size"] if not required or int(required[1]) != notes["threads"] else []
    problems += ["no matrix instruction of the type in the loop"] if matrix == 0 else []
    problems += ["no ds_read_b128 in the loop"] if reads == 0 else []
    aligned = "_a16" in recipe["steps"][0]["symbol"]
    problems += ["no load of 16 bytes in the loop"] if aligned and loads == 0 else []
    line = (f"{arch} {dtype} {shape} {layout} {plan}: vgpr {notes['vgpr']} agpr {notes['agpr']} sgpr {notes['sgpr']} "
            f"lds {notes['lds']}; loop {len(body)}: matrix {matrix} lds {count(body, 'ds_')} memory "
            f"{count(body, '(global|buffer|flat)_')} wait {count(body, 's_wait')}; at most "
            f"{predicted(body, arch, dtype, plan, notes):.2f} of peak by the model")
    return line, ", ".join(problems)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--full"]
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    lathe, folder, llvm = arguments[:3]
    wanted, full = (arguments[3] if len(arguments) > 3 else ""), "--full" in sys.argv
    right = wrong = 0
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        with open(path) as f:
            description = json.load(f)
        arch = description["target"] if isinstance(description["target"], str) else description["target"]["arch"]
        for dtype in TYPES.get(arch, ()):
            for shape, layout in SHAPES if full else SHAPES[:1]:
                if wanted not in f"{name} {arch} {dtype} {shape} {layout}":
                    continue
                text = tool(lathe, "explain", "matmul", shape, "--dtype", dtype, "--layout", layout, "--facts", path,
                            "--cache-dir", "")
                found = plans(text, full)
                if not found:
                    print(f"{name} {dtype} {shape} {layout}: no legal plan of the family", flush=True)
                    wrong += 1
                for rank, plan in found:
                    line, problem = check(lathe, path, description["facts"], llvm, arch, dtype, shape, layout, rank, plan)
                    right, wrong = right + (not problem), wrong + bool(problem)
                    print(f"{name} {line}{' WRONG: ' + problem if problem else ''}", flush=True)
    print(f"{right} plans right, {wrong} wrong", flush=True)
    sys.exit(1 if wrong or not right else 0)


if __name__ == "__main__":
    main()
