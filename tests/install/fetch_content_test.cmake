# Configures examples/fetch_content, a project that takes Lathe with FetchContent, and checks that Lathe's settings stay
# inside Lathe: no tests, benchmarks or install rules, no build type, no compile options and no language standard for the
# project that contains it.
#
# cmake -DSOURCE=... -DWORK=... -DC_COMPILER=... -DCXX_COMPILER=... -DGENERATOR=... -DWITH_COMPILER=ON|OFF
#       -P fetch_content_test.cmake
file(REMOVE_RECURSE ${WORK})
execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE}/examples/fetch_content -B ${WORK} -G ${GENERATOR} -DCMAKE_C_COMPILER=${C_COMPILER}
          -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DLATHE_BUILD_COMPILER=${WITH_COMPILER} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "configuring failed: ${output}")
endif()

file(READ ${WORK}/compile_commands.json commands)
string(JSON count LENGTH ${commands})
set(own "")
math(EXPR last "${count} - 1")
foreach(i RANGE ${last})
  string(JSON file GET ${commands} ${i} file)
  if(file MATCHES "/fetch_content/engine\\.c$")
    string(JSON own GET ${commands} ${i} command)
  elseif(file MATCHES "^${SOURCE}/(tests|benchmarks)/")
    message(FATAL_ERROR "a project that takes Lathe would compile ${file}")
  endif()
endforeach()
if(NOT own MATCHES " -isystem ?[^ ]*/include | -I ?[^ ]*/include ")
  message(FATAL_ERROR "engine.c is compiled without Lathe's headers: ${own}")
endif()
if(own MATCHES " (-W|-O|-std=|-fvisibility|-ffunction-sections|-DNDEBUG)[^ ]*")
  message(FATAL_ERROR "engine.c is compiled with Lathe's option '${CMAKE_MATCH_0}': ${own}")
endif()

load_cache(${WORK} READ_WITH_PREFIX CACHED_ CMAKE_BUILD_TYPE LATHE_BUILD_TESTS LATHE_INSTALL)
foreach(name CMAKE_BUILD_TYPE LATHE_BUILD_TESTS LATHE_INSTALL)
  if(CACHED_${name})
    message(FATAL_ERROR "${name} is ${CACHED_${name}} in the cache of the project that takes Lathe")
  endif()
endforeach()
execute_process(COMMAND ${CMAKE_COMMAND} --install ${WORK} --prefix ${WORK}/prefix RESULT_VARIABLE status OUTPUT_QUIET)
file(GLOB_RECURSE installed ${WORK}/prefix/*)
if(NOT status EQUAL 0 OR installed)
  message(FATAL_ERROR "installing the project that takes Lathe: status ${status}, files ${installed}")
endif()
