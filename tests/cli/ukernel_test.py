"""A user's ukernel by the command, from C to results: add, ls, remove, and what is said of mistakes.

usage: ukernel_test.py LATHE CLANG
"""
import json
import pathlib
import platform
import subprocess
import sys
import tempfile

LATHE, CLANG = sys.argv[1:]

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "ukernels" / "first_maximum.c"
SOURCE = EXAMPLE.read_text()
# So cheap that it is chosen.
ROW = EXAMPLE.with_suffix(".yaml").read_text().replace("1e-9", "1e-15")

# With instructions that ROW's features do not have.
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
    assert run(cache)["plan"]["config"]["ukernel"]["function"] != "first_maximum"  # and leaves a record of that plan
    row = root / "mine.yaml"
    row.write_text(ROW)
    bitcode = compiled(root / "mine.bc", SOURCE, "--target=x86_64-pc-linux-gnu")
    assert str(cache / "ukernels") in lathe("ukernel", "add", bitcode, "--describe", row, cache=cache)
    listed = json.loads(lathe("ukernel", "ls", "--json", cache=cache))["ukernels"]
    assert [(u["name"], u["function"], u["defect"]) for u in listed] == [("first-maximum", "first_maximum", "")], listed
    assert lathe("ukernel", "ls", cache=cache).split()[:2] == ["first-maximum", "argmax"]
    report = run(cache)
    assert report["plan"]["config"]["ukernel"]["function"] == "first_maximum" and report["check"]["ok"], report
    assert "first_maximum of first-maximum" in lathe("explain", "argmax", "5x1000", cache=cache)

    # A file that changed is not taken, and said of.
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
    assert "line 8: 'features' is no list, such as [avx2, fma]" in refused(ROW.replace("[avx2, fma]", "avx2"))
    assert "line 1: 'function' is missing" in refused(ROW.replace("function: first_maximum\n", ""))
    assert "does not define the function 'its_row'" in refused(ROW.replace("first_maximum", "its_row"))
    assert "compiled for x86_64-" in refused(ROW.replace("x86-64", "aarch64"))
    far = compiled(root / "far.bc", SOURCE, "--target=x86_64-pc-windows-msvc")
    assert "compiled for x86_64-pc-windows-msvc" in refused(ROW, far)
    calls = compiled(root / "calls.bc", SOURCE.replace("return best;", "return rand();").replace("uint32_t first", "int rand(void);\nuint32_t first"))
    assert "needs 'rand', and kernels have no library" in refused(ROW, calls)
    wide = compiled(root / "wide.bc", WIDE, "-mavx512f", "-mavx512cd")
    assert "with the features '+avx2,+fma'" in refused(ROW, wide)
    narrow = compiled(root / "narrow.bc", SOURCE.replace("int64_t columns", "int32_t columns"))
    assert "and argmax calls i32 (ptr, i64)" in refused(ROW, narrow)
    assert "bitcode of first-maximum" in refused(ROW, root / "row.c")
    assert "cannot read" in refused(ROW, root / "nothing.bc", code=2)
    assert "needs --describe" in lathe("ukernel", "add", bitcode, cache=cache, code=2)
    assert "no ukernels of your own" in lathe("ukernel", "ls", cache=cache)


if platform.machine() != "x86_64" or "avx2" not in pathlib.Path("/proc/cpuinfo").read_text():
    print("skipped: the ukernel is for AVX2")
    sys.exit(0)
with tempfile.TemporaryDirectory() as directory:
    test_from_c_to_results(pathlib.Path(directory))
    test_mistakes(pathlib.Path(directory))
print("ukernels of users work")
