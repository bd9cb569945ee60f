// The functions that this library serves itself, with 32-bit integers: the Fortran forms, and CBLAS'.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define LATHE_BLAS_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

// Values of CBLAS' enumerations.
enum { kCblasRowMajor = 101, kCblasColMajor = 102 };
enum { kCblasNoTrans = 111, kCblasTrans = 112, kCblasConjTrans = 113 };

// C = alpha op(A) op(B) + beta C, as in the reference BLAS. The size_t arguments are the lengths of the strings, which
// Fortran compilers pass and C callers leave out; they are not read.
LATHE_BLAS_API void sgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n,
                           const int32_t* k, const float* alpha, const float* a, const int32_t* lda,
                           const float* b, const int32_t* ldb, const float* beta, float* c,
                           const int32_t* ldc, size_t, size_t);
LATHE_BLAS_API void cblas_sgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k,
                                float alpha, const float* a, int32_t lda, const float* b, int32_t ldb,
                                float beta, float* c, int32_t ldc);

// y = alpha op(A) x + beta y. An increment may be negative: the vector then starts at its other end.
LATHE_BLAS_API void sgemv_(const char* trans, const int32_t* m, const int32_t* n, const float* alpha,
                           const float* a, const int32_t* lda, const float* x, const int32_t* incx,
                           const float* beta, float* y, const int32_t* incy, size_t);
LATHE_BLAS_API void cblas_sgemv(int order, int trans, int32_t m, int32_t n, float alpha, const float* a,
                                int32_t lda, const float* x, int32_t incx, float beta, float* y,
                                int32_t incy);

// `batch` products. Matrix i of A starts stridea * i elements after `a`; strides may be 0 or negative. The products run
// as if one after the other, so matrices of C may overlap.
LATHE_BLAS_API void sgemm_batch_strided_(const char* transa, const char* transb, const int32_t* m,
                                         const int32_t* n, const int32_t* k, const float* alpha,
                                         const float* a, const int32_t* lda, const int32_t* stridea,
                                         const float* b, const int32_t* ldb, const int32_t* strideb,
                                         const float* beta, float* c, const int32_t* ldc,
                                         const int32_t* stridec, const int32_t* batch, size_t, size_t);
LATHE_BLAS_API void cblas_sgemm_batch_strided(int order, int transa, int transb, int32_t m, int32_t n,
                                              int32_t k, float alpha, const float* a, int32_t lda,
                                              int32_t stridea, const float* b, int32_t ldb, int32_t strideb,
                                              float beta, float* c, int32_t ldc, int32_t stridec,
                                              int32_t batch);

// A and B of bf16 (sb) or f16 (sh), C of f32, as in OpenBLAS.
LATHE_BLAS_API void sbgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n,
                            const int32_t* k, const float* alpha, const uint16_t* a, const int32_t* lda,
                            const uint16_t* b, const int32_t* ldb, const float* beta, float* c,
                            const int32_t* ldc, size_t, size_t);
LATHE_BLAS_API void cblas_sbgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k,
                                 float alpha, const uint16_t* a, int32_t lda, const uint16_t* b, int32_t ldb,
                                 float beta, float* c, int32_t ldc);
LATHE_BLAS_API void shgemm_(const char* transa, const char* transb, const int32_t* m, const int32_t* n,
                            const int32_t* k, const float* alpha, const uint16_t* a, const int32_t* lda,
                            const uint16_t* b, const int32_t* ldb, const float* beta, float* c,
                            const int32_t* ldc, size_t, size_t);
LATHE_BLAS_API void cblas_shgemm(int order, int transa, int transb, int32_t m, int32_t n, int32_t k,
                                 float alpha, const uint16_t* a, int32_t lda, const uint16_t* b, int32_t ldb,
                                 float beta, float* c, int32_t ldc);

// The reference BLAS' error handler for CBLAS. OpenBLAS has none. A program may define its own.
LATHE_BLAS_API void cblas_xerbla(int parameter, const char* routine, const char* format, ...);
// Forwarded; a program may define its own.
LATHE_BLAS_API void xerbla_(const char* routine, const int32_t* parameter, size_t length);

#ifdef __cplusplus
}
#endif
