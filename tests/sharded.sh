#!/usr/bin/env bash
# sharded.sh PROGRAM [ARGUMENT...]: runs one GoogleTest shard of LATHE_TEST_SAMPLE; without that variable, all tests.
# The shard is drawn from LATHE_TEST_SEED and the command, or at random without a seed.
set -euo pipefail
if [ "${LATHE_TEST_SAMPLE:-1}" -gt 1 ]; then
  number=$RANDOM
  if [ -n "${LATHE_TEST_SEED:-}" ]; then
    # One program runs on several devices: each of them gets another shard.
    number=$(printf '%s\n' "$LATHE_TEST_SEED" "${LATHE_TEST_DEVICE:-}" "${LATHE_CPU_TARGET:-}" "${@##*/}" | cksum)
    number=${number%% *}
  fi
  export GTEST_TOTAL_SHARDS=$LATHE_TEST_SAMPLE GTEST_SHARD_INDEX=${GTEST_SHARD_INDEX:-$((number % LATHE_TEST_SAMPLE))}
  echo "shard $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS (repeat with GTEST_SHARD_INDEX)"
fi
exec "$@"
