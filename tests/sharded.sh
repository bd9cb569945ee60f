#!/usr/bin/env bash
# sharded.sh PROGRAM [ARGUMENT...]: runs one GoogleTest shard of LATHE_TEST_SAMPLE, drawn at random; without that
# variable, all tests.
set -euo pipefail
if [ "${LATHE_TEST_SAMPLE:-1}" -gt 1 ]; then
  export GTEST_TOTAL_SHARDS=$LATHE_TEST_SAMPLE GTEST_SHARD_INDEX=${GTEST_SHARD_INDEX:-$((RANDOM % LATHE_TEST_SAMPLE))}
  echo "shard $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS (repeat with GTEST_SHARD_INDEX)"
fi
exec "$@"
