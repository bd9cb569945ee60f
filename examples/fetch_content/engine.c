/* An engine in ten lines: one matmul with a weight stored [outputs, inputs], as in PyTorch's Linear. */
#include <lathe/lathe.h>
#include <stdio.h>

int main(void) {
  lathe_context* context = NULL;
  lathe_device* cpu = NULL;
  float x[2] = {1, 2}, weight[2 * 2] = {5, 7, 6, 8}, y[2];
  lathe_matmul_desc desc = LATHE_MATMUL_DESC_INIT;
  desc.m = 1;
  desc.n = desc.k = 2;
  desc.a.data = x;
  desc.b.data = weight;
  desc.b.layout = LATHE_COLUMN_MAJOR;
  desc.d.data = y;
  desc.a.dtype = desc.b.dtype = desc.d.dtype = LATHE_F32;
  if (lathe_context_create(NULL, &context) != LATHE_OK ||
      lathe_device_open(context, "cpu", &cpu) != LATHE_OK || lathe_matmul(cpu, NULL, &desc) != LATHE_OK) {
    fprintf(stderr, "%s\n", lathe_last_error());
    return 1;
  }
  printf("%g %g\n", y[0], y[1]); /* 19 22 */
  lathe_device_close(cpu);
  lathe_context_destroy(context);
  return y[0] == 19 && y[1] == 22 ? 0 : 1;
}
