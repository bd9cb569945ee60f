#!/usr/bin/env bash
# run.sh FUZZER SEEDS FOUND: fuzzes for $LATHE_FUZZ_SECONDS (default 3). Starts from the seeds and from the inputs that
# earlier runs stored in FOUND. An input that crashes is stored there too.
set -euo pipefail
mkdir -p "$3/corpus"
export LLVM_PROFILE_FILE=$3/default.profraw
exec "$1" ${LATHE_TEST_SEED:+-seed="$LATHE_TEST_SEED"} -max_total_time="${LATHE_FUZZ_SECONDS:-3}" -max_len=4096 -timeout=60 -print_final_stats=1 \
  -artifact_prefix="$3/" "$3/corpus" "$2"
