// Prints a CompileConfig as MLIR attributes.
#pragma once

#include <string>

#include "core/plan.h"

namespace lathe {

std::string kernel_config_text(const KernelConfig& config);  // #lathe.kernel_config<...>
// The lines that define the aliases #config and, if needed, #ukernel or #external.
std::string config_aliases(const CompileConfig& config);
// The entries of the payload op's attribute dictionary that use these aliases.
std::string config_entries(const CompileConfig& config);

}  // namespace lathe
