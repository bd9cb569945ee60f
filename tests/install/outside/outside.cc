// The same test as outside.c, with the C++ header: an error is an exception that names its cause, and a product is
// right.
#include <cstdio>
#include <lathe/lathe.hpp>
#include <vector>

int main() try {
  const lathe::Context context;
  try {
    context.open("nonesuch:0");
    std::fprintf(stderr, "an unknown device was opened\n");
    return 1;
  } catch (const lathe::Error& e) {
    if (e.status() != LATHE_INVALID_ARGUMENT) throw;
  }

  const lathe::Device cpu = context.open("cpu");
  const std::vector<float> x = {1, -2, 3}, weight = {1, 1, 1, -1, 0, -1};  // two outputs of three inputs
  std::vector<float> y = {-1, -1};
  lathe::Epilogue relu;
  relu.activation = LATHE_ACTIVATION_RELU;
  lathe::matmul(cpu, lathe::row_major(x.data(), 1, 3), lathe::row_major(weight.data(), 2, 3).transposed(),
                lathe::row_major(y.data(), 1, 2), relu);
  std::printf("%g %g\n", y[0], y[1]);
  return y[0] == 2 && y[1] == 0 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
