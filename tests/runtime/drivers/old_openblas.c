/* OpenBLAS's name, from before the number of its threads could be set. */
__attribute__((visibility("default"))) void cblas_sgemm(void);
void cblas_sgemm(void) {}
