// Artifacts and steps for the runtime tests, made from kernels/*.c.
#pragma once

#include <string>
#include <vector>

#include "core/artifact.h"
#include "runtime/driver.h"

namespace lathe {

// Returns the object file of kernels/<name>.c.
std::string read_test_object(const std::string& name);

// A step with a constant grid of x * y * z tasks.
Step cpu_step(const std::string& symbol, int64_t x, int64_t y = 1, int64_t z = 1);

// An artifact with the code of kernels/<object>.c and these steps, without workspace.
Artifact test_artifact(const std::string& object, std::vector<Step> steps);

}  // namespace lathe
