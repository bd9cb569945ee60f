// Messages on stderr.
#pragma once

namespace lathe_blas {

// Prints one line, "lathe_blas: " and the message.
__attribute__((format(printf, 1, 2))) void report(const char* format, ...);

}  // namespace lathe_blas
