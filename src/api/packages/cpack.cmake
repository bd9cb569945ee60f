# Packages from one build tree: `cpack -G DEB` makes a .deb for each component, `cpack -G TXZ` an archive that runs where
# it is unpacked. `./dev package` calls both.
set(CPACK_PACKAGE_NAME lathe)
set(CPACK_PACKAGE_VENDOR Lathe)
set(CPACK_PACKAGE_CONTACT "Lathe maintainers <maintainers@localhost>")
set(CPACK_PACKAGE_FILE_NAME lathe-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_COMPONENTS_ALL runtime compiler development command)
if(LATHE_BUILD_BLAS)
  list(APPEND CPACK_COMPONENTS_ALL blas)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)  # to compress: as many as there are cores
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/stage.cmake)
# For stage.cmake.
set(CPACK_LATHE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_LATHE_LIBDIR ${CMAKE_INSTALL_LIBDIR})
if(CMAKE_LIBRARY_ARCHITECTURE)
  set(CPACK_LATHE_DEBIAN_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE})
  set(CPACK_LATHE_DEBIAN_FILES ${CMAKE_CURRENT_BINARY_DIR}/debian-libdir)
  configure_development_files(${CPACK_LATHE_DEBIAN_FILES} /usr ${CPACK_LATHE_DEBIAN_LIBDIR})
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY >=)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(this_version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME liblathe0)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "liblathe-compiler0 ${this_version}")
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "Matrix kernels for inference engines: the library
Matmul, argmax and both fused, on CPUs and GPUs, through a C API. Lathe
compiles a kernel for a shape on first use and caches it.
.
With a warm cache or a bundle of kernels, this package is enough. To compile
kernels, install liblathe-compiler0 too.")

# liblathe refuses a compiler library of another build.
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME liblathe-compiler0)
set(CPACK_DEBIAN_COMPILER_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_COMPILER_PACKAGE_DEPENDS "liblathe0 ${this_version}")
set(CPACK_DEBIAN_COMPILER_DESCRIPTION "Matrix kernels for inference engines: the compiler
The part of Lathe that compiles kernels, with MLIR and LLVM inside. liblathe
loads it when it needs a kernel that no cache has.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liblathe-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "liblathe0 ${this_version}")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "Matrix kernels for inference engines: development files
Headers for C and C++, and the files for pkg-config and for CMake's
find_package(lathe).")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME lathe)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_COMMAND_PACKAGE_DEPENDS "liblathe0 ${this_version}")
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "liblathe-compiler0 ${this_version}")
set(CPACK_DEBIAN_COMMAND_DESCRIPTION "Matrix kernels for inference engines: the command
Runs, checks and times kernels, explains why one was chosen, fills caches and
writes bundles of kernels.")

# liblathe is opened at run time. The next BLAS serves what Lathe does not.
set(CPACK_DEBIAN_BLAS_PACKAGE_NAME liblathe-blas0)
set(CPACK_DEBIAN_BLAS_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_BLAS_PACKAGE_DEPENDS "liblathe0 ${this_version}, libopenblas0 | libblas3")
set(CPACK_DEBIAN_BLAS_PACKAGE_RECOMMENDS "liblathe-compiler0 ${this_version}")
set(CPACK_DEBIAN_BLAS_DESCRIPTION "Matrix kernels for inference engines: a BLAS for other programs
Runs f32 matrix products of programs that call BLAS, such as NumPy, on Lathe,
and passes every other call to the next BLAS. It is an alternative for
libblas.so.3, with the lowest priority, and can be preloaded.")
set(CPACK_DEBIAN_BLAS_PACKAGE_CONTROL_EXTRA "")
foreach(script postinst prerm)
  configure_file(blas.${script}.in ${CMAKE_CURRENT_BINARY_DIR}/blas/${script} @ONLY
                 FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  list(APPEND CPACK_DEBIAN_BLAS_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/blas/${script})
endforeach()
include(CPack)
