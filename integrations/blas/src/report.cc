#include "report.h"

#include <cstdarg>
#include <cstdio>

namespace lathe_blas {

void report(const char* format, ...) {
  char message[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  fprintf(stderr, "lathe_blas: %s\n", message);
}

}  // namespace lathe_blas
