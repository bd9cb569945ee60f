"""Runs the example of a document in an empty directory with an empty cache, and compares its output with the document.

usage: document_example_test.py PROGRAM EXPECTED
"""
import os
import pathlib
import subprocess
import sys
import tempfile

program, expected = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).read_text()
with tempfile.TemporaryDirectory() as directory:
    result = subprocess.run([program], cwd=directory, env={**os.environ, "LATHE_CACHE_DIR": f"{directory}/cache"},
                            capture_output=True, text=True)
print(f"{result.stdout}{result.stderr}", end="")
if result.returncode != 0:
    sys.exit(f"{program.name} failed with exit code {result.returncode}")
if result.stdout != expected:
    sys.exit(f"{program.name} printed {result.stdout!r}, but the document says {expected!r}")
