#!/usr/bin/env bash
# usage: run.sh BUILD [WORK]
# Builds the Python package against an installed copy of the build tree BUILD and runs its tests in a virtual
# environment, WORK/venv (WORK: BUILD/python-test). Exit status 77: skipped, because the environment cannot be made.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$1 work=${2:-$1/python-test}
python=$work/venv/bin/python
skip() { printf 'skipped: %s\n' "$*"; exit 77; }

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || skip "python3 is older than 3.10"
python3 -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' ||
  skip "Python.h is missing (Debian: python3-dev)"
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv" ||
  skip "python3 -m venv fails (Debian: python3-venv)"
"$python" -c 'import gguf, ml_dtypes, nanobind, numpy, pytest' 2>/dev/null ||
  "$work/venv/bin/pip" install -q --retries 1 --timeout 10 gguf ml_dtypes nanobind numpy pytest ||
  skip "pip cannot install gguf, ml_dtypes, nanobind, numpy and pytest"

cmake --install "$build" --prefix "$work/prefix" >"$work/log"
cmake -S "$source/python" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLATHE_PREFIX="$work/prefix" \
  -DPython_EXECUTABLE="$python" >>"$work/log"
cmake --build "$work/build" >>"$work/log" || { cat "$work/log"; exit 1; }
cmake --install "$work/build" --component python --prefix "$work/site" >>"$work/log"
cp -r "$source/python/src/lathe/." "$work/site/lathe"
cd "$source"
if [ -e "$build/lib/cuda-emulator/libcuda.so.1" ]; then  # gpu_test.py
  export LATHE_TEST_CUDA_EMULATOR=1 LD_LIBRARY_PATH=$build/lib/cuda-emulator
fi
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/site exec "$python" -m pytest -q -p no:cacheprovider tests/python
