#!/usr/bin/env bash
# Runs the programs of Debian's libblas-test with liblathe_blas.so in place of libblas.so.3, and the reference BLAS as
# the next one. Every product of f32 runs on Lathe, also the smallest.
#   libblas_test.sh LIBLATHE_BLAS WORK    exit status 77: the package is not installed
set -euo pipefail
readonly kSkipped=77
library=$(realpath "$1"); mkdir -p "$2"; work=$(cd "$2" && pwd)
shopt -s nullglob
programs=(/usr/lib/*/blas/xblat3s)
skip() { echo "skipped: $1"; exit $kSkipped; }
[ ${#programs[@]} -gt 0 ] || skip "no xblat3s in /usr/lib/*/blas; install Debian's libblas-test"
data=$(dirname "${programs[0]}")
[ -e "$data/libblas.so.3" ] || skip "no $data/libblas.so.3; install Debian's libblas3"

rm -rf "$work"/*
ln -s "$library" "$work/libblas.so.3"
cd "$work"
export LD_LIBRARY_PATH=$work LATHE_BLAS_NEXT=$data/libblas.so.3 LATHE_BLAS_SMALL=0 LATHE_BLAS_VERBOSE=1

failed=0
# run PROGRAM INPUT RESULT: RESULT has a line with PASS for each routine, and no line with FAIL, SUSPECT or FATAL.
run() {
  local status=0 bad passed products
  "$data/$1" <"$2" >"$1.log" 2>"$1.err" || status=$?
  bad=$(grep -ciE 'fail|suspect|fatal' "$3" || true)
  passed=$(grep -c PASS "$3" || true)
  products=$(sed -n 's/.*: \([0-9]*\) products on Lathe.*/\1/p' "$1.err")
  echo "$1: $passed passed, $bad bad, exit status $status, ${products:-0} products on Lathe"
  [ "$status" = 0 ] && [ "$bad" = 0 ] && [ "$passed" -gt 0 ] || { failed=1; tail -n 5 "$1.err" "$3"; }
  case $1 in
    xblat[23]s | xscblat[23]) [ "${products:-0}" -gt 0 ] || { failed=1; echo "$1: no product ran on Lathe"; } ;;
  esac
}
for p in s d c z; do
  run xblat1$p /dev/null xblat1$p.log
  for level in 2 3; do
    run "xblat$level$p" "$data/${p}blat$level.in" "${p}blat$level.out"
    run "x${p}cblat$level" "$data/${p}in$level" "x${p}cblat$level.log"
  done
  run "x${p}cblat1" /dev/null "x${p}cblat1.log"
done
exit $failed
