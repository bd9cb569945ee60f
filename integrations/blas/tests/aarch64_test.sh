#!/usr/bin/env bash
# Builds the library for AArch64 and runs forward_test in qemu-aarch64. There is no liblathe for it, so the library
# forwards every call. Exit status 77: skipped, because a tool is missing.
#   aarch64_test.sh WORK
set -euo pipefail
work=$1
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
src=${tests%/*}/src
triple=aarch64-linux-gnu
for tool in $triple-gcc:gcc-$triple $triple-g++:g++-$triple qemu-aarch64:qemu-user; do
  command -v "${tool%:*}" >/dev/null || { echo "skipped: ${tool%:*} is missing (Debian: ${tool#*:})"; exit 77; }
done
mkdir -p "$work"
cd "$work"
$triple-g++ -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -fsemantic-interposition -Wall -Wextra \
  -I"$tests/../../../include" -DLATHE_BLAS_REFERENCE="\"/usr/lib/$triple/blas/libblas.so.3\"" \
  -o liblathe_blas.so "$src"/*.cc "$src"/*.S
$triple-gcc -O2 -fPIC -shared -fvisibility=hidden -o libnext_blas.so "$tests/next_blas.c"
$triple-gcc -O2 -Wall -Wextra -o forward_test "$tests/forward_test.c" -L. -llathe_blas -Wl,-rpath,'$ORIGIN' -pthread
LATHE_BLAS_NEXT=$PWD/libnext_blas.so qemu-aarch64 -L /usr/$triple ./forward_test
