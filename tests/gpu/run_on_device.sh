#!/usr/bin/env bash
# The script of a pack (./dev pack) that runs on a machine with a CUDA device; see docs/measuring-on-a-gpu.md.
#   run [bench|check|sanitize|stress|all] [--seconds N] [--form quick|full|smoke] [--out DIRECTORY]
#   run first|second ...      the first minutes on a device: first_light/__main__.py
# Every part fits into one command with a time limit: it starts nothing that does not fit into N seconds (540). After
# each step DIRECTORY (./results) contains two files, summary.txt and results.tar.gz (all logs and tables), even if the
# run is killed. A failed step does not stop the others; the exit status is 1 if one failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
first_light=
case ${1:-} in first | second) first_light=$1 ;; esac
part=all limit=540 form=quick out=$PWD/results
case ${1:-} in bench | check | sanitize | stress | all) part=$1 && shift ;; esac
while [ $# -gt 0 ] && [ -z "$first_light" ]; do
  case $1 in
    --seconds) limit=$2 ;;
    --form) form=$2 ;;
    --out) out=$2 ;;
    *) sed -n 3p "$0" >&2 && exit 2 ;;
  esac
  shift 2 || exit 2
done
# The directories where pip and CUDA's installers put cuBLASLt; empty if the loader finds it anyway.
cublaslt_directories() {
  ! ldconfig -p 2>/dev/null | grep 'libcublasLt\.so\.' >/dev/null || return 0
  local site d
  for site in $(timeout 20 python3 -c 'import sys; print("\n".join(p for p in sys.path if p))' 2>/dev/null); do
    for d in "$site"/nvidia/cu13/lib "$site"/nvidia/cublas/lib; do
      [ -z "$(compgen -G "$d/libcublasLt.so.*")" ] || printf ':%s' "$d"
    done
  done
  for d in /usr/local/cuda*/lib64; do
    [ -z "$(compgen -G "$d/libcublasLt.so.*")" ] || printf ':%s' "$d"
  done
}
environment() {  # sets the paths of libraries, kernels and cache for the programs
  LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}$(cublaslt_directories)
  PATH=$PATH:/usr/local/cuda/bin
  export LD_LIBRARY_PATH PATH LATHE_TEST_DEVICE=cuda:0
  # Kernels compiled when the pack was made, and a cache that later parts reuse but that is not part of the results.
  export LATHE_CACHE_DIR=${LATHE_CACHE_DIR:-${TMPDIR:-/tmp}/lathe-run-cache}
  export LATHE_KERNELS_DIR=$here/share/lathe/kernels LATHE_SHAPES_CSV=$here/share/bench/shapes.csv
  if [ -z "${LATHE_BUNDLES:-}" ] && [ -e "$here/share/lathe/sm_90a.bundle" ]; then
    export LATHE_BUNDLES=$here/share/lathe/sm_90a.bundle
  fi
}
environment
if [ -n "$first_light" ]; then
  export LATHE_PACK=$here
  exec python3 "$here/share/first_light" "$@"
fi
deadline=$((SECONDS + limit - 10))  # the rest is for the last packing
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd) summary=$out/summary.txt
work=$(mktemp -d)
: >"$summary"

say() { printf '%s\n' "$*" | tee -a "$summary"; }
left() { echo $((deadline - SECONDS)); }
pack() {  # packs what there is so far
  tar -C "$work" -czf "$out/.results" . 2>/dev/null
  mv -f "$out/.results" "$out/results.tar.gz"
}
finish() {
  local child
  trap - EXIT
  for child in $(jobs -p); do kill "$child" 2>/dev/null; done
  wait
  if [ -e "$work/failed" ]; then
    say "FAILED: $(sort "$work/failed" | tr '\n' ' ')"
  else
    say "nothing failed"
  fi
  pack
  rm -rf "$work"
}
trap finish EXIT
trap 'say "killed from outside"; echo "the run itself" >>"$work/failed"; exit 143' TERM INT HUP

# NAME SECONDS COMMAND...: runs one step with a time limit and a log. Its verdict and performance bars go into the
# summary. It runs in its own process, which ends the command when it is ended itself.
step() {
  local name=$1 seconds=$2 start=$SECONDS status child
  shift 2
  [ "$seconds" -lt "$(left)" ] || seconds=$(left)
  if [ "$seconds" -lt 3 ]; then
    say "$name: skipped, no time left"
    return
  fi
  timeout -k 5 "$seconds" "$@" >"$work/$name.log" 2>&1 &
  child=$!
  trap 'kill "$child" 2>/dev/null; exit 143' TERM
  wait "$child"
  status=$?
  [ $status -eq 0 ] || tail -n 12 "$work/$name.log"
  case $status in
    0) say "$name: passed in $((SECONDS - start)) s" ;;
    124 | 137) say "$name: OUT OF TIME after $((SECONDS - start)) s" ;;
    *) say "$name: FAILED ($status) in $((SECONDS - start)) s" ;;
  esac
  grep -hE ': (met|missed|not judged)$|geometric mean|^first use|^cached call|rows measured$|measured ceilings' \
    "$work/$name.log" | sed 's/^/  /' | tee -a "$summary"
  [ $status -eq 0 ] || echo "$name" >>"$work/failed"
}
# AT_ONCE NAME SECONDS COMMAND...: starts a step as soon as fewer than AT_ONCE steps run.
begin() {
  local most=$1
  shift
  while [ "$(jobs -pr | wc -l)" -ge "$most" ]; do wait -n && pack; done
  step "$@" &
}
finished() { while [ -n "$(jobs -pr)" ]; do wait -n && pack; done; }
wants() { [ "$part" = all ] || [ "$part" = "$1" ]; }

lathe=$here/bin/lathe cores=$(nproc)
at_once=$((cores > 2 ? cores / 2 : 1))
selftest=("$lathe" selftest --device cuda:0) suites=("$here"/bin/conformance_*)
bench=("$here/bin/lathe_cuda_bench" --shapes "$here/share/bench/shapes.csv" --csv "$work")
families=(simt mma wgmma skinny rows ukernel)
case $form in
  quick)
    selftest+=(--quick)
    export LATHE_TEST_QUICK=1 LATHE_TEST_SECONDS=20
    bench+=(--seconds 0.2)
    ;;
  full) ;;
  smoke)  # for an emulated device: a few small cases, and no bar is judged
    selftest+=(--quick --largest 64 --filter argmax)
    suites=("$here/bin/conformance_argmax")
    families=(rows)
    bench+=(--smoke)
    export LATHE_TEST_QUICK=1 LATHE_TEST_SECONDS=1 LATHE_TEST_LARGEST=32 GTEST_FILTER='*EveryShortLength*:*ThreadsWithStreams*'
    ;;
  *) echo "run: unknown form '$form'; it must be quick, full or smoke" >&2 && exit 2 ;;
esac

say "$part, $form, $limit s; $(date -u +%FT%TZ); $(nvidia-smi -L 2>/dev/null | head -n 1)"
begin 1 devices 60 "$lathe" devices
finished
if wants bench; then
  begin 1 bench_startup 90 "${bench[@]}" --mode startup --deadline 60
  begin 1 bench_argmax 60 "${bench[@]}" --mode argmax --deadline 45
  finished
  # PyTorch runs last.
  seconds=$(($(left) - 120))
  [ "$form" != smoke ] || seconds=$(left)
  begin 1 bench_matmul $((seconds + 15)) "${bench[@]}" --mode matmul --deadline "$seconds"
  finished
  if timeout 90 python3 -c 'import torch' 2>/dev/null; then
    begin 1 bench_torch "$(left)" python3 "$here/share/bench/vs_torch.py" "$here/lib/liblathe.so.0.1" \
      --csv "$work/torch.csv" --deadline $(($(left) - 10))
    finished
  else
    say "bench_torch: skipped, PyTorch is not installed"
  fi
  [ "$form" != full ] || begin 1 bench_matmul_f16 "$(left)" "${bench[@]}" --mode matmul --dtype f16 --deadline $(($(left) > 16 ? $(left) - 15 : 1))
  finished
fi
if wants check; then
  begin "$at_once" selftest 300 "${selftest[@]}"
  # The whole table again, with each request forced onto one kernel family where that is legal.
  for family in "${families[@]}"; do
    begin "$at_once" "selftest_$family" 300 "${selftest[@]}" --family "$family"
  done
  for suite in "${suites[@]}"; do
    # These test only the CPU or need the source tree.
    case $(basename "$suite") in *_avx2 | *_aarch64 | *_process | *_processes | *_user_ukernels | *_coverage) continue ;; esac
    # They count compilations, so no bundle may provide kernels.
    begin "$at_once" "$(basename "$suite")" 300 env -u LATHE_BUNDLES "$suite"
  done
  finished
fi
if wants sanitize; then
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      begin 2 "sanitize_$tool" "$(left)" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "${selftest[@]}" --quick --largest 1024
    done
    finished
  else
    say "sanitize: skipped, compute-sanitizer is not installed"
  fi
fi
if wants stress; then
  # Runs side by side and repeatedly: split-K and argmax merged by the last workgroup, from several streams and
  # threads, and captures during loads.
  seconds=$(($(left) - 60)) most=$(left) again='end=$((SECONDS + $1)) runs=0; shift; until [ $SECONDS -ge $end ] && [ $runs -gt 0 ]; do
    "$@" || exit; runs=$((runs + 1)); done; echo "$runs runs"'
  [ "$form" != smoke ] || seconds=1
  [ "$form" != quick ] || export LATHE_TEST_SECONDS=5
  for suite in streams threads split_k argmax; do
    [ "$form" != smoke ] || [ "$suite" = argmax ] || continue
    begin 6 "stress_$suite" "$most" bash -c "$again" again "$seconds" \
      env -u LATHE_BUNDLES "$here/bin/conformance_$suite"
  done
  for filter in capture stream; do
    begin 6 "stress_$filter" "$most" bash -c "$again" again "$seconds" \
      "$lathe" selftest --device cuda:0 --quick --filter "$filter"
  done
  finished
fi
[ ! -e "$work/failed" ]
