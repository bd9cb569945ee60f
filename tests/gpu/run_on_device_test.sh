#!/usr/bin/env bash
# The script of a pack on a tree like one that is unpacked, over the emulated driver.
#   run_on_device_test.sh BUILD WORK bench|check|ended
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
  ended) # a step fails, the next is ended from outside: what there is comes back
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
    says '^ended from outside'
    says '^FAILED: .*devices'
    holds devices.log
    ;;
esac
# Few enough files for a machine that hands back few.
[ "$(find "$work/out" -type f | wc -l)" -eq 2 ] || fail "$(ls -A "$work/out")"
