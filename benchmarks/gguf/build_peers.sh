#!/bin/bash
# Builds the peers of lathe_gguf_bench from PyPI's sdists.
#   pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36 ik-llama-cpp-python==0.1.5
#   build_peers.sh llama_cpp_python-0.3.36.tar.gz ik_llama_cpp_python-0.1.5.tar.gz DIRECTORY
# Prints the options for Lathe's CMake.
set -euo pipefail
[ $# = 3 ] || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 2; }
directory=$(mkdir -p "$3" && cd "$3" && pwd)
jobs=${LATHE_JOBS:-$(nproc)}

unpack() { # sdist, name of the vendored source, where it goes
  [ -e "$directory/$3" ] && return
  mkdir -p "$directory/sdist"
  tar -xzf "$1" -C "$directory/sdist"
  mv "$directory"/sdist/*/vendor/"$2" "$directory/$3"
  rm -r "$directory/sdist"
}
unpack "$1" llama.cpp ggml
unpack "$2" ik_llama.cpp ik

# GCC 12 takes _tile_loadconfig to read 8 bytes and drops the stores to the rest of the tile configuration. Without this
# line ggml's AMX kernels are illegal instructions.
tiles="$directory/ggml/ggml/src/ggml-cpu/amx/mmq.cpp"
grep -q 'asm volatile("" : : "r"(&tc)' "$tiles" ||
  sed -i 's|^\( *\)_tile_loadconfig(&tc);|\1asm volatile("" : : "r"(\&tc) : "memory");\n&|' "$tiles"

build() { # directory, targets..., with only what a product needs
  cmake -S "$directory/$1" -B "$directory/$1/build" -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_CURL=OFF \
    -DGGML_LLAMAFILE=ON -DGGML_IQK_FLASH_ATTENTION=OFF > /dev/null
  cmake --build "$directory/$1/build" --parallel "$jobs" --target "${@:2}"
}
build ggml ggml ggml-cpu
build ik ggml
echo "-DLATHE_GGML_DIR=$directory/ggml -DLATHE_IK_GGML_DIR=$directory/ik"
