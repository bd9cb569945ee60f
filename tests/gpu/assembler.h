// Whether this machine can assemble PTX.
#pragma once

#include <string>

namespace lathe {

// Why PTX cannot be assembled on this machine; "" if it can.
const std::string& no_assembler();

}  // namespace lathe
