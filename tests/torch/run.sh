#!/usr/bin/env bash
# usage: run.sh BUILD
# Tests lathe.torch, built against an installed copy of the build tree BUILD, in a virtual environment with PyTorch and
# transformers (BUILD/torch/venv: 6 GB), then prints how fast a model is.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(cd "$1" && pwd)
work=$build/torch python=$build/torch/venv/bin/python
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3 -m venv --clear "$work/venv"
"$work/venv/bin/pip" install -q 'torch>=2.10' 'transformers>=5,<5.40' expecttest numba iree-base-compiler iree-base-runtime \
  gguf ml_dtypes nanobind numpy pytest

cmake --install "$build" --prefix "$work/prefix" >"$work/log"
cmake -S "$source/python" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLATHE_PREFIX="$work/prefix" \
  -DPython_EXECUTABLE="$python" >>"$work/log"
cmake --build "$work/build" >>"$work/log" || { cat "$work/log"; exit 1; }
cmake --install "$work/build" --component python --prefix "$work/site" >>"$work/log"
cp -r "$source/python/src/lathe/." "$work/site/lathe"
cd "$source"
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/site
"$python" -m pytest -q -p no:cacheprovider tests/torch
# In a process of its own, because PyTorch cannot use the emulated driver and must not find it elsewhere.
LATHE_TEST_CUDA_EMULATOR=1 LD_LIBRARY_PATH=$build/lib/cuda-emulator \
  "$python" -m pytest -q -p no:cacheprovider tests/torch/cuda_test.py
exec "$python" tests/torch/speed.py
