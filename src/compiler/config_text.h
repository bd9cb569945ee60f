// CompileConfig as the text of its #lathe.kernel_config attribute.
#pragma once

#include <string>

#include "core/plan.h"

namespace lathe {

std::string kernel_config_text(const CompileConfig& config);

}  // namespace lathe
