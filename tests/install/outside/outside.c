/* A small client in C99: one matmul with a bias, one argmax, both checked by hand. */
#include <lathe/lathe.h>
#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, lathe_last_error());
  return 1;
}

int main(void) {
  lathe_context* context = NULL;
  lathe_device* device = NULL;
  if (lathe_context_create(NULL, &context) != LATHE_OK) return failed("context");
  if (lathe_device_open(context, "cpu", &device) != LATHE_OK) return failed("cpu");

  float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[3 * 2] = {1, 0, 0, 1, 1, 1}, bias[2] = {10, 20},
              d[4] = {-1, -1, -1, -1};
  lathe_matmul_desc matmul = LATHE_MATMUL_DESC_INIT;
  matmul.m = 2;
  matmul.n = 2;
  matmul.k = 3;
  matmul.a.data = a;
  matmul.b.data = b;
  matmul.d.data = d;
  matmul.a.dtype = matmul.b.dtype = matmul.d.dtype = matmul.epilogue.bias_dtype = LATHE_F32;
  matmul.epilogue.bias = bias;
  lathe_status status = lathe_matmul(device, NULL, &matmul);
  if (status != LATHE_OK) return failed(lathe_status_name(status));
  if (d[0] != 14 || d[1] != 25 || d[2] != 20 || d[3] != 31) {
    fprintf(stderr, "matmul gave %g %g %g %g\n", d[0], d[1], d[2], d[3]);
    return 1;
  }

  int64_t indices[2] = {-1, -1};
  lathe_argmax_desc argmax = LATHE_ARGMAX_DESC_INIT;
  argmax.rows = 2;
  argmax.n = 2;
  argmax.x.data = d;
  argmax.x.dtype = LATHE_F32;
  argmax.indices = indices;
  status = lathe_argmax(device, NULL, &argmax);
  if (status != LATHE_OK) return failed(lathe_status_name(status));
  if (indices[0] != 1 || indices[1] != 1) {
    fprintf(stderr, "argmax gave %d %d\n", (int)indices[0], (int)indices[1]);
    return 1;
  }
  lathe_device_close(device);
  lathe_context_destroy(context);
  puts("right");
  return 0;
}
