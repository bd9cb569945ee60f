// Artifacts and launches for the runtime's tests, from kernels/*.c.
#pragma once

#include <string>
#include <vector>

#include "core/artifact.h"
#include "runtime/driver.h"

namespace lathe {

// The object of kernels/<name>.c.
std::string read_test_object(const std::string& name);

// Grid (constants): x * y * z tasks.
Step cpu_step(const std::string& symbol, int64_t x, int64_t y = 1, int64_t z = 1);

// Code of kernels/<object>.c with these steps and no workspace.
Artifact test_artifact(const std::string& object, std::vector<Step> steps);

}  // namespace lathe
