#!/usr/bin/env bash
# Tests the run script of a pack on an unpacked tree, with the emulated driver.
#   run_on_device_test.sh BUILD WORK bench|check|ended|first|absent
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$1" && pwd) work=$2 case=$3
fail() { printf 'FAILED: %s\n' "$*" >&2; cat "$work/out/summary.txt" >&2 || true; exit 1; }
says() { grep -qE "$1" "$work/out/summary.txt" || fail "the summary lacks: $1"; }
holds() { tar -tzf "$work/out/results.tar.gz" | grep -x "./$1" >/dev/null || fail "the results lack $1"; }
rm -rf "$work"
mkdir -p "$work"
"$here/stage_pack.sh" "$build" "$work/pack" link
export LD_LIBRARY_PATH=$build/lib/blaslt-stub:$build/lib/cuda-emulator LATHE_CACHE_DIR=$work/cache
run() { "$work/pack/run" "$@" --form smoke --out "$work/out"; }
case $case in
  bench)
    run bench --seconds 200 || fail "bench answered $?"
    says '^bench_matmul: passed'
    says 'first use p50: .*: not judged'
    says '^nothing failed'
    holds cuda_matmul_bf16.csv
    holds bench_argmax.log
    ;;
  check)
    run check --seconds 200 || fail "check answered $?"
    for name in devices selftest selftest_rows conformance_argmax; do says "^$name: passed"; done
    ;;
  absent)  # without a device: one line, status 2, no files
    status=0
    said=$(LD_LIBRARY_PATH= "$work/pack/run" first --out "$work/out" 2>&1) || status=$?
    [ "$status" -eq 2 ] || fail "without a device run first answered $status"
    [ "$(printf '%s\n' "$said" | wc -l)" -eq 1 ] || fail "without a device run first said: $said"
    [ ! -e "$work/out" ] || fail "without a device run first left $work/out"
    exit 0
    ;;
  first)  # a wrong kernel, one that hangs and one that faults: each appears in its cell
    status=0
    export LATHE_EMULATOR_PLANT=wrong:_nt_m16_n72_k80_a16_mma,hang:_nn_m1_n72_k80_a16_wgmma,fault:_nt_m16_n72_k80_a16_simt
    "$work/pack/run" first --smoke --seconds 250 --hang 15 --out "$work/out" || status=$?
    [ "$status" -eq 1 ] || fail "with planted faults run first answered $status"
    says '^\| wgmma \| [0-9]+ right, 1 HUNG \|$'
    says '^\| mma \| [0-9]+ right, [0-9]+ WRONG \|$'
    says '^\| simt \| [0-9]+ right, [0-9]+ FAULTED \|$'
    says '^\| skinny \| [0-9]+ right \|$'
    says '^\| generic \| [0-9]+ right \|$'
    says '^    lathe run matmul 1x72x80 --dtype bf16 --layout nn .*--candidate [0-9]+ --seed [0-9]+ --device cuda:0$'
    says '^startup: passed'
    says '^streams capture: passed'
    [ "$(wc -c <"$work/out/summary.txt")" -le 12000 ] || fail "the summary is too long"
    grep -q '^wgmma,bf16,none,hung,' "$work/out/cases.csv" || fail "cases.csv lacks the hang"
    holds matmul_bf16.log
    [ "$(find "$work/out" -type f | wc -l)" -le 8 ] || fail "$(ls -A "$work/out")"
    # A second run repeats the parts that failed. Without the planted faults they must pass.
    unset LATHE_EMULATOR_PLANT
    mv "$work/out" "$work/first"
    "$work/pack/run" second --from "$work/first" --smoke --no-speed --out "$work/out" || fail "run second answered $?"
    for family in wgmma mma simt; do says "^\\| $family \\| [0-9]+ right \\|\$"; done
    ! grep -q '^| skinny' "$work/out/summary.txt" || fail "run second repeated what was right"
    ;;
  ended)  # one step fails, the next is killed from outside: the results so far are there
    rm "$work/pack/bin/lathe"
    printf '#!/bin/sh\ncase $1 in devices) echo broken; exit 3 ;; *) sleep 100 ;; esac\n' >"$work/pack/bin/lathe"
    chmod +x "$work/pack/bin/lathe"
    "$work/pack/run" check --seconds 60 --form smoke --out "$work/out" &
    child=$!
    for _ in $(seq 100); do
      sleep 0.2
      ! grep -q '^devices: FAILED (3)' "$work/out/summary.txt" 2>/dev/null || break
    done
    sleep 0.5
    kill -TERM "$child"
    status=0
    wait "$child" || status=$?
    [ "$status" -ne 0 ] || fail "a run that was ended answered 0"
    says '^killed from outside'
    says '^FAILED: .*devices'
    holds devices.log
    ;;
esac
# The results must be few files, for machines that return only a few.
[ "$case" = first ] || [ "$(find "$work/out" -type f | wc -l)" -eq 2 ] || fail "$(ls -A "$work/out")"
