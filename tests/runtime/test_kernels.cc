#include "test_kernels.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

namespace lathe {

std::string read_test_object(const std::string& name) {
  const std::string path = std::string(LATHE_TEST_KERNEL_DIR) + "/" + name + ".o";
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.empty()) {
    std::cerr << "cannot read " << path << "\n";
    std::abort();
  }
  return bytes;
}

Step cpu_step(const std::string& symbol, int64_t x, int64_t y, int64_t z) {
  Step step;
  step.symbol = symbol;
  step.grid = {constant(x), constant(y), constant(z)};
  return step;
}

Artifact test_artifact(const std::string& object, std::vector<Step> steps) {
  Artifact artifact;
  artifact.code = read_test_object(object);
  artifact.recipe.steps = std::move(steps);
  return artifact;
}

}  // namespace lathe
