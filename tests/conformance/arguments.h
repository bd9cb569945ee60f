// Builds the argument block of a request like the C API, for tests that launch kernels which no device on this machine
// would select.
#pragma once

#include "core/args.h"
#include "lathe/lathe.h"

namespace lathe::conformance {

ArgumentBlock arguments_of(const lathe_matmul_desc& d);
ArgumentBlock arguments_of(const lathe_argmax_desc& d);
ArgumentBlock arguments_of(const lathe_matmul_argmax_desc& d);

}  // namespace lathe::conformance
