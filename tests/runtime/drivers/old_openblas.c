/* A library named like OpenBLAS's, from before its thread count could be set. */
__attribute__((visibility("default"))) void cblas_sgemm(void);
void cblas_sgemm(void) {}
