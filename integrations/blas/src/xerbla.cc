#include "xerbla.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "blas.h"
#include "next_blas.h"

namespace lathe_blas {

void report_illegal(const char* routine, int parameter) {
  const int32_t position = parameter;
  xerbla_(routine, &position, strlen(routine));
}

void report_illegal_cblas(const char* routine, int parameter) { cblas_xerbla(parameter, routine, "%s", ""); }

}  // namespace lathe_blas

// Variables of the reference CBLAS, which programs such as its tests import.
extern "C" {
LATHE_BLAS_API int RowMajorStrg = 0;
LATHE_BLAS_API int CBLAS_CallFromC = 0;
}

// Without a next BLAS, a line on stderr as OpenBLAS prints it. The process goes on.
void xerbla_(const char* routine, const int32_t* parameter, size_t length) {
  static lathe_blas::NextFunction<decltype(xerbla_)> next("xerbla_");
  if (auto* const function = next.get()) return function(routine, parameter, length);
  fprintf(stderr, " ** On entry to %.*s parameter number %2d had an illegal value\n",
          static_cast<int>(length), routine, *parameter);
}

void cblas_xerbla(int parameter, const char* routine, const char* format, ...) {
  fprintf(stderr, "Parameter %d to routine %s was incorrect\n", parameter, routine);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
}
