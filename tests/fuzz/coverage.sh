#!/usr/bin/env bash
# coverage.sh TREE: measures the branch coverage of the parsers, by the fuzzers' seeds alone and together with the unit
# tests. TREE is a build tree with fuzzers. Fails if a parser has less than 95 % in both together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
bin=$(realpath "$1/bin") seeds=$(realpath "$1/tests/fuzz/seeds")
parsers=(src/cache/{bundle,entry_file}.cc src/core/{artifact,json,manifest,plan_record,recipe}.cc)
fuzzers=(bundle entry manifest record)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
objects=("$bin/fuzz_unit_tests")
for fuzzer in "${fuzzers[@]}"; do
  objects+=(-object "$bin/fuzz_$fuzzer")
  LLVM_PROFILE_FILE=$work/$fuzzer.seeds "$bin/fuzz_$fuzzer" -runs=0 "$seeds/$fuzzer" >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
done
LLVM_PROFILE_FILE=$work/tests.unit "$bin/fuzz_unit_tests" --gtest_brief=1 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# Prints one line per parser, such as "src/cache/bundle.cc 97.8". The branches are the last column of llvm-cov's report.
branches() {  # PROFILE...
  llvm-profdata-22 merge -o "$work/merged" "$@"
  local parser
  for parser in "${parsers[@]}"; do
    printf '%s ' "$parser"
    llvm-cov-22 report "${objects[@]}" -instr-profile="$work/merged" --show-branch-summary "$parser" 2>>"$work/log" |
      awk '/^TOTAL/ {sub("%", "", $NF); print $NF}'
  done
}
branches "$work"/*.seeds >"$work/by_seeds"
branches "$work"/*.seeds "$work"/*.unit >"$work/by_all"
paste -d ' ' "$work/by_all" "$work/by_seeds" |
  awk '{printf "%-28s %6s %% of branches, %6s %% by seeds alone\n", $1, $2, $4; if (!($2 >= 95)) low = low " " $1}
       END {if (low != "") {print "less than 95 %:" low; exit 1}}'
