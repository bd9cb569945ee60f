// The argument block that the C API makes of a request, for tests that launch kernels which no device here
// would be given.
#pragma once

#include "core/args.h"
#include "lathe/lathe.h"

namespace lathe::conformance {

ArgumentBlock arguments_of(const lathe_matmul_desc& d);
ArgumentBlock arguments_of(const lathe_argmax_desc& d);
ArgumentBlock arguments_of(const lathe_matmul_argmax_desc& d);

}  // namespace lathe::conformance
