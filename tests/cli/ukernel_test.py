"""Tests a user's ukernel, from C source to results: add, ls, remove, and the errors for mistakes.

usage: ukernel_test.py LATHE CLANG CUDA-EMULATOR
"""
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

LATHE, CLANG, EMULATOR = sys.argv[1:]

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "ukernels" / "first_maximum.c"
SOURCE = EXAMPLE.read_text()
# A cost so low that the ukernel is chosen.
ROW = EXAMPLE.with_suffix(".yaml").read_text().replace("1e-9", "1e-15")

# Uses instructions that the features in ROW do not include.
WIDE = """
#include <immintrin.h>
#include <stdint.h>
uint32_t first_maximum(const void* row, int64_t columns) {
  return (uint32_t)_mm512_reduce_add_epi32(_mm512_conflict_epi32(_mm512_loadu_si512(row))) % (uint32_t)columns;
}
"""


def lathe(*words, cache, code=0):
    result = subprocess.run([LATHE, *map(str, words), "--cache-dir", str(cache)], capture_output=True, text=True, timeout=120)
    assert result.returncode == code, f"lathe {words}: exit {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stderr if code else result.stdout


def compiled(path, source, *flags):
    path.with_suffix(".c").write_text(source)
    subprocess.run([CLANG, "-O3", "-march=x86-64-v3", "-ffreestanding", "-emit-llvm", "-c", *flags, path.with_suffix(".c"), "-o", path],
                   check=True, timeout=60)
    return path


def run(cache):
    return json.loads(lathe("run", "argmax", "5x1000", "--json", "--repeat", 1, cache=cache))


def test_from_c_to_results(root):
    cache = root / "cache"
    assert "no ukernels of your own" in lathe("ukernel", "ls", cache=cache)
    assert run(cache)["plan"]["config"]["ukernel"]["function"] != "first_maximum"  # this also stores a record of the plan
    row = root / "mine.yaml"
    row.write_text(ROW)
    bitcode = compiled(root / "mine.bc", SOURCE, "--target=x86_64-pc-linux-gnu")
    assert str(cache / "ukernels") in lathe("ukernel", "add", bitcode, "--describe", row, cache=cache)
    listed = json.loads(lathe("ukernel", "ls", "--json", cache=cache))["ukernels"]
    assert [(u["name"], u["function"], u["defect"]) for u in listed] == [("first-maximum", "first_maximum", "")], listed
    assert lathe("ukernel", "ls", cache=cache).split()[:2] == ["first-maximum", "argmax"]
    report = run(cache)
    assert report["plan"]["config"]["ukernel"]["function"] == "first_maximum" and report["check"]["ok"], report
    assert "first_maximum (ukernel first-maximum)" in lathe("explain", "argmax", "5x1000", cache=cache)

    # A stored file that has changed is not used, and the list says so.
    stored = cache / "ukernels" / "first-maximum.bc"
    damaged = bytearray(stored.read_bytes())
    damaged[100] ^= 1
    stored.write_bytes(damaged)
    assert "has changed since it was added" in lathe("ukernel", "ls", cache=cache)
    explained = lathe("explain", "argmax", "5x1000", cache=cache)
    assert "first-maximum.bc has changed since it was added" in explained.split("\nRejected\n")[1], explained
    report = run(cache)
    assert report["plan"]["config"]["ukernel"]["function"] != "first_maximum" and report["check"]["ok"], report

    assert "removed first-maximum" in lathe("ukernel", "remove", "first-maximum", cache=cache)
    assert not list((cache / "ukernels").iterdir())
    assert "there is no ukernel named first-maximum" in lathe("ukernel", "remove", "first-maximum", cache=cache, code=1)


def test_mistakes(root):
    cache = root / "none"
    row, bitcode = root / "row.yaml", compiled(root / "row.bc", SOURCE)

    def refused(text, file=bitcode, code=1):
        row.write_text(text)
        return lathe("ukernel", "add", file, "--describe", row, cache=cache, code=code)

    assert "line 3: unknown key 'dtipe'" in refused(ROW.replace("dtype", "dtipe"))
    assert "line 8: 'features' is not a list such as [avx2, fma]" in refused(ROW.replace("[avx2, fma]", "avx2"))
    assert "line 1: 'function' is missing" in refused(ROW.replace("function: first_maximum\n", ""))
    assert "does not define the function 'its_row'" in refused(ROW.replace("first_maximum", "its_row"))
    assert "compiled for x86_64-" in refused(ROW.replace("x86-64", "aarch64"))
    far = compiled(root / "far.bc", SOURCE, "--target=x86_64-pc-windows-msvc")
    assert "compiled for x86_64-pc-windows-msvc" in refused(ROW, far)
    calls = compiled(root / "calls.bc", SOURCE.replace("return best;", "return rand();").replace("uint32_t first", "int rand(void);\nuint32_t first"))
    assert "needs 'rand', but kernels have no library" in refused(ROW, calls)
    wide = compiled(root / "wide.bc", WIDE, "-mavx512f", "-mavx512cd")
    assert "with the features '+avx2,+fma'" in refused(ROW, wide)
    narrow = compiled(root / "narrow.bc", SOURCE.replace("int64_t columns", "int32_t columns"))
    assert "but argmax calls i32 (ptr, i64)" in refused(ROW, narrow)
    assert "bitcode of first-maximum" in refused(ROW, root / "row.c")
    assert "cannot read" in refused(ROW, root / "nothing.bc", code=2)
    assert "needs --describe" in lathe("ukernel", "add", bitcode, cache=cache, code=2)
    assert "no ukernels of your own" in lathe("ukernel", "ls", cache=cache)


WAVE = EXAMPLE.with_name("first_maximum_wave.c")
WAVE_ROW = WAVE.with_suffix(".yaml").read_text().replace("1e-12", "1e-16").replace("3e-6", "3e-9")


def compiled_for(path, *target):
    subprocess.run([CLANG, "-O3", "-ffreestanding", "-nogpulib", "-emit-llvm", "-c", *target, WAVE, "-o", path], check=True, timeout=60)
    return path


def nvidia(path):
    return compiled_for(path, "--target=nvptx64-nvidia-cuda", "-march=sm_75")


def test_on_gpus(root):
    cache, row = root / "gpus", root / "wave.yaml"
    row.write_text(WAVE_ROW)
    lathe("ukernel", "add", nvidia(root / "wave.bc"), "--describe", row, cache=cache)
    row.write_text(WAVE_ROW.replace("-wave\n", "-wave-amd\n").replace("sm_75 # and later", "gfx942"))
    amd = compiled_for(root / "amd.bc", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-Xclang", "-mcode-object-version=none")
    lathe("ukernel", "add", amd, "--describe", row, cache=cache)

    def chosen(facts):
        explained = json.loads(lathe("explain", "argmax", "300x1000", "--facts", facts, "--json", cache=cache))
        return explained["candidates"][0]["config"]["ukernel"]["bitcode"]

    assert chosen("t4").startswith("user/first-maximum-wave@") and chosen("h200") == chosen("t4")
    assert chosen("mi300x").startswith("user/first-maximum-wave-amd@")
    for other in ("mi250x", "xeon-8592plus"):
        assert not chosen(other).startswith("user/"), other
    assert "@llvm.amdgcn.ds.bpermute" in lathe("dump", "argmax", "300x1000", "--facts", "mi300x", "--stage", "llvm.ll", cache=cache)
    os.environ["LD_LIBRARY_PATH"] = EMULATOR
    for shape in ("1x1", "5x1000", "37x31", "64x1023"):
        report = json.loads(lathe("run", "argmax", shape, "--values", "--device", "cuda:0", "--json", "--repeat", 1, cache=cache))
        assert report["plan"]["config"]["ukernel"]["function"] == "first_maximum_wave" and report["check"]["ok"], report
    del os.environ["LD_LIBRARY_PATH"]

    def refused(text):
        row.write_text(text)
        return lathe("ukernel", "add", root / "wave.bc", "--describe", row, cache=cache, code=1)

    assert "line 5: 'attributes' must contain alwaysinline" in refused(WAVE_ROW.replace("alwaysinline ", ""))
    assert "line 9: 'group': 'warp' is not wave or block" in refused(WAVE_ROW.replace("group: wave", "group: warp"))
    assert "'tiling' needs group" in refused(WAVE_ROW.replace("tiling:\n  group: wave\n", ""))
    assert "calls i64 (ptr addrspace(1), i32, i32, i32, ptr addrspace(3))" in refused(WAVE_ROW.replace("group: wave", "group: block"))
    assert "line 7: arch 'sm_70'" in refused(WAVE_ROW.replace("sm_75", "sm_70"))
    assert "'features' is only for CPUs" in refused(WAVE_ROW.replace("  arch: sm_75 # and later", "  arch: sm_75\n  features: [avx2]"))
    assert "line 2: op 'matmul' does not support user ukernels on GPUs" in refused(WAVE_ROW.replace("argmax", "matmul"))
    assert "compiled for nvptx64-nvidia-cuda" in refused(WAVE_ROW.replace("sm_75 # and later", "gfx942"))
    assert "'group' is only for GPUs" in refused(ROW + "tiling: {group: wave}\n")


if platform.machine() != "x86_64" or "avx2" not in pathlib.Path("/proc/cpuinfo").read_text():
    print("skipped: the ukernel is for AVX2")
    sys.exit(0)
with tempfile.TemporaryDirectory() as directory:
    test_from_c_to_results(pathlib.Path(directory))
    test_mistakes(pathlib.Path(directory))
    test_on_gpus(pathlib.Path(directory))
print("ukernels of users work")
