#!/usr/bin/env bash
# What ./dev pack carries to a machine with a CUDA device: the conformance suite there, then the benchmarks.
#   run [check|sanitize|bench|all] [RESULTS]   (default: all, into ./results)
# Each part goes on when another fails; the closing lines say what failed, and the exit status.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
part=${1:-all} results=${2:-$PWD/results}
mkdir -p "$results"
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LATHE_CACHE_DIR=$results/cache LATHE_TEST_DEVICE=cuda:0
failed=()
step() {  # NAME SECONDS COMMAND...
  local name=$1 seconds=$2 start=$SECONDS
  shift 2
  printf '\n== %s\n' "$name"
  timeout "$seconds" "$@" >"$results/$name.log" 2>&1
  local status=$?
  tail -n 12 "$results/$name.log"
  printf -- '-- %s: %s in %d s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo "FAILED ($status)")" $((SECONDS - start))
  [ $status -eq 0 ] || failed+=("$name")
}
wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }

if wants check; then
  step devices 60 "$here/bin/lathe" devices
  step selftest 240 "$here/bin/lathe" selftest --device cuda:0
  # The whole table again, each request forced onto one kernel family where it is legal.
  for family in simt mma wgmma skinny rows; do
    step "selftest_$family" 240 "$here/bin/lathe" selftest --device cuda:0 --family "$family"
  done
  for suite in "$here"/bin/conformance_*; do
    # Of the CPU alone, or in need of the source tree.
    case $(basename "$suite") in *_avx2 | *_process | *_coverage | *_warm) continue ;; esac
    step "$(basename "$suite")" 240 "$suite"
  done
fi
if wants sanitize; then
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      step "sanitize_$tool" 240 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$here/bin/lathe" selftest --device cuda:0 --quick
    done
  else
    echo "skipped: no compute-sanitizer here"
  fi
fi
if wants bench; then
  bench=("$here/bin/lathe_cuda_bench" --shapes "$here/share/bench/shapes.csv" --csv "$results")
  step bench_startup 120 "${bench[@]}" --mode startup
  step bench_argmax 120 "${bench[@]}" --mode argmax
  step bench_matmul 500 "${bench[@]}" --mode matmul
  if python3 -c 'import torch' 2>/dev/null; then
    step bench_torch 240 python3 "$here/share/bench/vs_torch.py" "$here/lib/liblathe.so.0.1"
  else
    echo "skipped: no PyTorch here"
  fi
fi

if [ ${#failed[@]} -eq 0 ]; then
  printf '\nall passed; logs in %s\n' "$results"
else
  printf '\nFAILED: %s; logs in %s\n' "${failed[*]}" "$results"
  exit 1
fi
