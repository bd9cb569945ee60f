// CompileConfig as the text of the attributes that carry it.
#pragma once

#include <string>

#include "core/plan.h"

namespace lathe {

std::string kernel_config_text(const KernelConfig& config);  // #lathe.kernel_config<...>
// Lines that name the attributes #config and, where there is one, #ukernel or #external; the entries of the
// payload op that carry them.
std::string config_aliases(const CompileConfig& config);
std::string config_entries(const CompileConfig& config);

}  // namespace lathe
