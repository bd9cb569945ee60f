#!/usr/bin/env bash
# Puts the files of a pack for another machine (./dev pack) into a directory.
#   stage_pack.sh BUILD DIRECTORY [link]     link: symbolic links into the build, for a test on this machine
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=$(cd "$1" && pwd) pack=$2 way=${3:-copy}
mkdir -p "$pack"/{bin,lib,share/lathe,share/bench}
put() { # FILE... DIRECTORY
  local to=${*: -1} file
  for file in "${@:1:$#-1}"; do
    if [ "$way" = link ]; then ln -s "$(realpath -s "$file")" "$to/"; else cp -rL "$file" "$to/"; fi
  done
}
# The shared libraries that a program needs from this machine: all except the C and C++ runtimes and the loader.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' |
    grep -vE '/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so' | sort -u
}
programs=("$build/bin/lathe" "$build/bin/lathe_cuda_bench" "$build"/bin/conformance_*)
put "${programs[@]}" "$pack/bin"
mapfile -t libraries < <(libraries_of "${programs[@]}" "$build/lib/liblathe.so" "$build/lib/liblathe-compiler.so")
put "${libraries[@]}" "$build/lib/liblathe-compiler.so" "$build/lib/lathe-compiler-process" "$build/lib/lathe-fallback.bundle" \
  "$pack/lib"
[ "$way" = link ] || strip --strip-unneeded "$pack"/lib/*.so* "$pack"/bin/*
put runtime/facts "$pack/share/lathe"
mkdir -p "$pack/share/lathe/kernels/matmul"
put kernels/matmul/cuda.yaml "$pack/share/lathe/kernels/matmul"
put benchmarks/shapes.csv benchmarks/cuda/vs_torch.py "$pack/share/bench"
put tests/gpu/first_light "$pack/share"
rm -rf "$pack/share/first_light/__pycache__"
cp tests/gpu/run_on_device.sh "$pack/run"
