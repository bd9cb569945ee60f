// Reports of illegal arguments, for the functions that the next BLAS does not have.
#pragma once

namespace lathe_blas {

// Calls xerbla_ or cblas_xerbla: the program's own, if it defines one.
void report_illegal(const char* routine, int parameter);
void report_illegal_cblas(const char* routine, int parameter);

}  // namespace lathe_blas
