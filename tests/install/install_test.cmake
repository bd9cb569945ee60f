# Installs the build tree into an empty prefix, builds an outside project against it, and runs that.
#
# cmake -DBUILD=... -DOUTSIDE=... -DWORK=... -DC_COMPILER=... -DCXX_COMPILER=... -DWITH_COMPILER=ON|OFF
#       -DGENERATOR=... -P install_test.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message("${output}")
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "'${command}' failed: ${status}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE hidden ${WORK}/prefix/include/.*)
if(hidden)
  message(FATAL_ERROR "hidden files are installed with the headers: ${hidden}")
endif()
run(${CMAKE_COMMAND} -S ${OUTSIDE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build)

# The installed command and library must find each other without the build tree.
set(ENV{LATHE_CACHE_DIR} ${WORK}/cache)
unset(ENV{LATHE_COMPILER_LIBRARY})
run(${WORK}/prefix/bin/lathe devices)
if(NOT output MATCHES "cpu ")
  message(FATAL_ERROR "the installed command does not list the cpu: ${output}")
endif()
if(WITH_COMPILER)
  run(${WORK}/build/outside_c)
  run(${WORK}/build/outside_cpp)
  run(${CMAKE_COMMAND} -E env LATHE_COMPILER=process LATHE_CACHE_DIR= ${WORK}/prefix/bin/lathe run matmul 5x6x7)
  # The library must find its files even if it is loaded by a relative name and the process changes its directory.
  file(GLOB_RECURSE library RELATIVE ${WORK}/prefix ${WORK}/prefix/liblathe.so)
  foreach(way inprocess process)
    run(${CMAKE_COMMAND} -E env LATHE_COMPILER=${way} LATHE_CACHE_DIR= ${CMAKE_COMMAND} -E chdir ${WORK}/prefix
        ${BUILD}/bin/api_relative_paths_child ${library} chdir=/ open product=16 fallback product=32)
  endforeach()
  run(${WORK}/prefix/bin/lathe explain matmul 16x4096x4096 --dtype f16 --facts h200)
else()
  # The cache is empty and there is no compiler. Both programs must report this and not crash.
  execute_process(COMMAND ${WORK}/build/outside_c RESULT_VARIABLE status ERROR_VARIABLE output)
  if(NOT status EQUAL 1 OR NOT output MATCHES "NOT_AVAILABLE")
    message(FATAL_ERROR "expected status 1 and NOT_AVAILABLE without a compiler, got ${status}: ${output}")
  endif()
endif()
