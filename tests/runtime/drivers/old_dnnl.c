/* A library named like oneDNN's, with a version that Lathe does not support. */
static const struct {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
} version = {4, 1, 2, "none", 2, 0};
__attribute__((visibility("default"))) const void* dnnl_version(void);
const void* dnnl_version(void) { return &version; }
