"""lathe_bench writes complete tables, and exits with status 1 if it cannot write one.

usage: tables_test.py LATHE_BENCH
"""
import csv
import os
import subprocess
import sys
import tempfile


def bench(*flags):
    return subprocess.run([sys.argv[1], "--smoke", *flags], capture_output=True, text=True, timeout=200, check=False)


def main():
    with tempfile.TemporaryDirectory() as directory:
        done = bench("--mode=first_use,dispatch", "--csv", directory)
        assert done.returncode == 0, done
        for name, row in (("first_use", "loading the compiler library, once a process"),
                          ("dispatch", "the table's lookup alone, 1 threads")):
            with open(f"{directory}/{name}.csv", encoding="utf-8", newline="") as file:
                rows = list(csv.reader(file))
            assert len({len(fields) for fields in rows}) == 1 and row in [fields[0] for fields in rows], rows
        # The directory is writable, but a table in it is not; then a plot that is not.
        os.remove(f"{directory}/first_use.csv")
        os.symlink("/dev/full", f"{directory}/first_use.csv")
        done = bench("--mode=first_use", "--csv", directory)
        assert done.returncode == 1 and f"cannot write {directory}/first_use.csv" in done.stderr, done
        done = bench("--mode=matmul", "--matmul_dtypes=f32", "--roofline=/dev/full")
        assert done.returncode == 1 and "cannot write /dev/full" in done.stderr, done


if __name__ == "__main__":
    main()
