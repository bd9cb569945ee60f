# ukernels: the C files kernels/<op>/ukernel/*.c. The first line of each lists its targets. This file sets
#   LATHE_UKERNELS                the compilations, such as "argmax/rows@x86-64-v4"
#   LATHE_UKERNEL_SOURCES         the source files
#   LATHE_UKERNEL_FLAGS           the compiler flags for all targets
#   LATHE_UKERNEL_FLAGS_<target>  the further flags for one target
# To add a target: its flags here and its row in candidates_ukernel.cc.
set(x86 --target=x86_64-unknown-linux-gnu -mprefer-vector-width=512 -fno-stack-protector)
set(LATHE_UKERNEL_FLAGS_x86-64-v3 ${x86} -march=x86-64-v3)
set(LATHE_UKERNEL_FLAGS_x86-64-v4 ${x86} -march=x86-64-v4)
set(LATHE_UKERNEL_FLAGS_x86-64-v4-vnni ${x86} -march=x86-64-v4 -mavx512vnni)
set(LATHE_UKERNEL_FLAGS_x86-64-v4-bf16 ${x86} -march=x86-64-v4 -mavx512vnni -mavx512bf16)
set(LATHE_UKERNEL_FLAGS_aarch64 --target=aarch64-unknown-linux-gnu -march=armv8-a -fno-stack-protector)
# GPUs. -Wno-unused-command-line-argument: clang warns about options that a GPU target does not use.
# -fno-unroll-loops: clang would unroll loops whose trip count it does not know.
set(gpu -nogpulib -fno-unroll-loops -fomit-frame-pointer -Wno-unused-command-line-argument)
set(cuda --target=nvptx64-nvidia-cuda ${gpu})
set(LATHE_UKERNEL_FLAGS_sm_75 ${cuda} -march=sm_75)
set(LATHE_UKERNEL_FLAGS_sm_80 ${cuda} -march=sm_80)
# The module of the kernel sets the code object version.
set(rocm --target=amdgcn-amd-amdhsa ${gpu} -Xclang -mcode-object-version=none)
set(LATHE_UKERNEL_FLAGS_gfx9 ${rocm} -mcpu=gfx900)
foreach(arch gfx90a gfx942 gfx950)
  set(LATHE_UKERNEL_FLAGS_${arch} ${rocm} -mcpu=${arch})
endforeach()
set(LATHE_UKERNEL_FLAGS_gfx11 ${rocm} -mcpu=gfx1100)
# The flags keep the bitcode independent of the place and time of its compilation. The code is inlined and optimised
# again together with the kernel, so no vectorisation is needed here.
set(LATHE_UKERNEL_FLAGS -c -emit-llvm -O2 -std=c99 -Wall -Wextra -Werror -ffreestanding -fno-builtin -nostdlibinc
    -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables -fno-vectorize -fno-slp-vectorize
    -ffp-contract=off -Qn)

file(GLOB LATHE_UKERNEL_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*/ukernel/*.[ch])
# Run CMake again when a first line changes.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${LATHE_UKERNEL_SOURCES})
set(LATHE_UKERNELS "")
foreach(source IN LISTS LATHE_UKERNEL_SOURCES)
  if(NOT source MATCHES "/([^/]+)/ukernel/([^/]+)\\.c$")
    continue()
  endif()
  set(name ${CMAKE_MATCH_1}/${CMAKE_MATCH_2})
  file(STRINGS ${source} line LIMIT_COUNT 1)
  if(NOT line MATCHES "^// targets: (.+)$")
    message(FATAL_ERROR "${source}:1: the first line must be '// targets: NAME...'")
  endif()
  string(REPLACE " " ";" targets "${CMAKE_MATCH_1}")
  foreach(target IN LISTS targets)
    if(NOT DEFINED LATHE_UKERNEL_FLAGS_${target})
      message(FATAL_ERROR "${source}:1: unknown ukernel target '${target}'; targets are defined in ukernels.cmake")
    endif()
    list(APPEND LATHE_UKERNELS ${name}@${target})
  endforeach()
endforeach()
