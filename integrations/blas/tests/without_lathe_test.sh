#!/usr/bin/env bash
# Runs blas_test where Lathe cannot run. All tests pass, and exactly one line of the library has the reason.
#   without_lathe_test.sh REASON TESTS COMMAND...
set -euo pipefail
reason=$1 tests=$2; shift 2
err=$(mktemp)
trap 'rm -f "$err"' EXIT
"$@" --gtest_filter="$tests" 2>"$err" || { cat "$err"; exit 1; }
cat "$err"
[ "$(grep -c '^lathe_blas: ' "$err")" = 1 ] || { echo "not one line"; exit 1; }
grep -q "^lathe_blas: .*$reason.*every call goes to the next BLAS" "$err" || { echo "not the reason: $reason"; exit 1; }
