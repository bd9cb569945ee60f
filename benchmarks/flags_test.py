"""Bad values of the benchmarks' flags: exit status 2 and one line with the flag, the value and what is allowed, before
anything is measured.

usage: flags_test.py LATHE_BENCH LATHE_CUDA_BENCH
"""
import os
import subprocess
import sys
import tempfile

CPU, CUDA = sys.argv[1:3]
BOTH = (CPU, CUDA)
# Programs, flag, bad values, and the part of the message that says what is allowed.
CASES = [
    (BOTH, "m", ["0", "-1", "1x,2", "1,,2", "1048577", "99999999999999999999"], "from 1 to 1048576"),
    ((CUDA,), "m", [""], "from 1 to 1048576"),
    ((CPU,), "prefill_m", ["512,0"], "from 1 to 1048576"),
    (BOTH, "argmax_rows", ["0", ""], "from 1 to 1048576"),
    (BOTH, "argmax_n", ["0", "2147483648", ""], "from 1 to 2147483647"),
    (BOTH, "mode", ["foo", "matmul,foo", ""], "startup|warm"),
    (BOTH, "seconds", ["0", "nan", "-1", "1s", "inf"], "from 0.001 to 3600"),
    (BOTH, "seed", ["-1", "x"], "from 0 to"),
    (BOTH, "shapes", ["/nonexistent.csv", "/dev/null"], "file"),
    (BOTH, "csv", ["/nonexistent", "/dev/null"], "directory"),
    (BOTH, "smoke", ["maybe"], "true"),
    ((CPU,), "threads", ["0", "-3", "1025", "two"], "from 1 to 1024"),
    ((CPU,), "dtypes", ["f33", "f32,f33", "i8"], "f32, f16, bf16"),
    ((CPU,), "matmul_dtypes", ["fp64", ""], "f32, f16, bf16, i8, q4_0"),
    ((CPU,), "layout", ["xx", ""], "nt, nn"),
    ((CPU,), "models", ["nosuch", "llama3-8b,nosuch", ""], "all, llama3-8b"),
    ((CPU,), "max_bytes", ["0"], "from 1 to"),
    ((CPU,), "max_gflop", ["0", "-1"], "number from"),
    ((CPU,), "pool_bytes", ["-1", "4096", "9000000000000000000"], "from 2097152 to"),
    ((CPU,), "first_use_classes", ["0", "571"], "from 1 to 570"),
    ((CPU,), "warm_kernels", ["0", "571"], "from 1 to 570"),
    ((CPU,), "background_classes", ["0"], "from 1 to"),
    ((CPU,), "background_rounds", ["0"], "from 1 to"),
    ((CPU,), "oracle_candidates", ["0"], "from 1 to"),
    ((CPU,), "oracle_tuned", ["-8"], "from 1 to"),
    ((CPU,), "roofline", ["/nonexistent/r.svg", "/"], "file"),
    ((CUDA,), "dtype", ["f32", "fp16"], "f16, bf16"),
    ((CUDA,), "models", ["llama3-8b"], "all"),  # no file of weights is given
    ((CUDA,), "device", ["-1", "cuda:0"], "from 0 to"),
    ((CUDA,), "pool_mib", ["0", "-1"], "from 1 to"),
    ((CUDA,), "max_tflop", ["0"], "number from"),
    ((CUDA,), "deadline", ["-1"], "number from"),
]
# Rows that are not allowed in a file of weights.
WEIGHTS = ["a,x,4096", "a,x,0,4096", "a,x,4096,268435457", "a,x,4096,4096,1", "m,layer,n,k"]


def refused(program, *words):
    """The one line that the program prints before it exits with status 2."""
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, f"{program} {words}: exit {done.returncode}: {done.stderr}"
    assert done.stdout == "" and done.stderr.count("\n") == 1, f"{program} {words}: {done}"
    return done.stderr


def main():
    for programs, flag, values, allowed in CASES:
        for program in programs:
            for value in values:
                line = refused(program, f"--{flag}={value}")
                assert line.startswith(f"--{flag}: '"), line
                assert any(f"'{part}'" in line for part in (value, *value.split(","))), (value, line)
                assert any(text in line for text in allowed.split("|")), (allowed, line)
    with tempfile.TemporaryDirectory() as directory:
        path = directory + "/weights.csv"
        for program in BOTH:
            for row in WEIGHTS:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"model,layer,n,k\na,x,16,16\n{row}\n")
                assert f"line 3, '{row}'" in refused(program, f"--shapes={path}", "--models=a")
            with open(path, "w", encoding="utf-8") as file:
                file.write("# of a model\nmodel,layer,n,k\n\na,x,16,16\n")
            assert "'b' is not one of all, a\n" in refused(program, f"--shapes={path}", "--models=b")
            # A word after a boolean flag, or after a blank in a list ("1, 2"), is not a value.
            assert "'2'" in refused(program, "--argmax_rows=1", "2")
            assert "'false'" in refused(program, "--ragged", "false")
        # Testing whether files can be written leaves the directory unchanged.
        refused(CPU, f"--csv={directory}", f"--roofline={directory}/r.svg", "--max_bytes=0")
        assert os.listdir(directory) == ["weights.csv"], os.listdir(directory)


if __name__ == "__main__":
    main()
